"""Starts of one's own: small commented folders for `calibench new`; what is in a kind's folder is copied."""
