"""Networks on CSR or dense rows: what turns them into arguments of the kernels, and threads."""
