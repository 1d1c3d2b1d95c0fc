"""The parts of packaging/release: one file for each kind of package."""
