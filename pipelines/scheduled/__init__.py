"""Reports that are published period after period, as a file describes them."""
