// Package cmath has the functions of C's <math.h> that scripts can call, with glibc's results on
// x86-64. The results of Go's package math differ in the last digit, and a script may store that
// digit.
//
// glibc's results are correctly rounded except for very few arguments. So are these: a function is
// computed in pairs of doubles, some 100 bits, and rounded once. The exceptions are the hyperbolic
// functions, which use glibc's formulas and round more than once, as glibc does. Invalid operations
// (the logarithm of -1) give a NaN with its sign set, as the processor's own do.
package cmath
