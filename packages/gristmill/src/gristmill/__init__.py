"""Submit jobs, job graphs and arrays to any batch system."""
