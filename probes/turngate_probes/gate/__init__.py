"""Tests an upgrade: probes both releases, resumes sessions across them, compares them, and judges the newer one."""
