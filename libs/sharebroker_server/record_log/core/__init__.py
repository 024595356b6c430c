"""Pure rules of the record log: no I/O, no clock; times are arguments in milliseconds of the wall epoch."""
