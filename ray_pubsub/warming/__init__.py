"""Compiles kernels before they are needed, in this process or in another one."""
