"""`autocl tour`: real digits, five tasks of two classes, learned one after the other before your eyes."""
