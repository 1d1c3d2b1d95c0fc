"""The parts of `./dev vm`: packages, kernels, guests."""
