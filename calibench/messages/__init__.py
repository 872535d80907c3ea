"""Messages: a user's errors in one line, checks of arguments, printable text, progress; everybody imports it."""
