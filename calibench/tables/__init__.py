"""What tables show: titles and units of metrics, and the table of one run."""
