"""Made-up files in the official formats of data sets that cannot be downloaded by everybody, for trials and tests."""
