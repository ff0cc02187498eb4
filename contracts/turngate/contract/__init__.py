"""Engine contracts: load, validate, and resolve them for one release."""
