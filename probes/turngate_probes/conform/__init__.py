"""Tests orchestrators: simulated engines that misbehave, records of how they are called, and rules that judge them."""
