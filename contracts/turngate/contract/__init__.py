"""Engine contracts: read, checked, and resolved for one release."""
