package commands

import "testing"

func TestCounters(t *testing.T) {
	table(t, `
		INCR n -> 1
		INCR n -> 2
		INCRBY n 40 -> 42
		INCRBY n -2 -> 40
		DECR n -> 39
		DECRBY n 9 -> 30
		DECRBY n -10 -> 40
		INCRBY n 0 -> 40
		GET n -> "40"
		events -> incrby:n incrby:n incrby:n incrby:n incrby:n incrby:n incrby:n incrby:n
		DECR m -> -1
		DECRBY l 5 -> -5
		INCRBY n abc -> -ERR value is not an integer or out of range
		INCRBY n 1.0 -> -ERR value is not an integer or out of range
		INCRBY n "" -> -ERR value is not an integer or out of range
		INCRBY n +1 -> -ERR value is not an integer or out of range
		INCRBY n " 1" -> -ERR value is not an integer or out of range
		INCRBY n 01 -> -ERR value is not an integer or out of range
		INCRBY n -0 -> -ERR value is not an integer or out of range
		INCRBY n 9223372036854775808 -> -ERR value is not an integer or out of range
		INCR -> -ERR wrong number of arguments for 'incr' command
		SET s "10 " -> +OK
		INCR s -> -ERR value is not an integer or out of range
		SET s "" -> +OK
		DECR s -> -ERR value is not an integer or out of range
		SET s 007 -> +OK
		INCR s -> -ERR value is not an integer or out of range
		SET s 9223372036854775806 -> +OK
		INCR s -> 9223372036854775807
		INCR s -> -ERR increment or decrement would overflow
		INCRBY s 9223372036854775807 -> -ERR increment or decrement would overflow
		DECRBY s -1 -> -ERR increment or decrement would overflow
		GET s -> "9223372036854775807"
		DECRBY s -9223372036854775808 -> -ERR decrement would overflow
		SET s -9223372036854775808 -> +OK
		DECR s -> -ERR increment or decrement would overflow
		INCRBY s -9223372036854775808 -> -ERR increment or decrement would overflow
		INCRBY s 9223372036854775807 -> -1
		INCRBY new -9223372036854775808 -> -9223372036854775808
		DECRBY new2 -9223372036854775808 -> -ERR decrement would overflow
		EXISTS new2 -> 0
	`)
}

// TestCounterDeadline: a counter keeps its deadline, and starts again when the deadline is over.
// Hourly rate counters work like that.
func TestCounterDeadline(t *testing.T) {
	table(t, `
		INCR n -> 1
		EXPIRE n 10 -> 1
		advance 4s
		INCR n -> 2
		INCRBYFLOAT n 0.5 -> "2.5"
		PTTL n -> 6000
		reopen
		GET n -> "2.5"
		PTTL n -> 6000
		advance 6s
		INCR n -> 1
		TTL n -> -1
	`)
}

func TestIncrByFloat(t *testing.T) {
	table(t, `
		INCRBYFLOAT f 10.50 -> "10.5"
		INCRBYFLOAT f 0.1 -> "10.6"
		INCRBYFLOAT f -5 -> "5.6"
		events -> incrbyfloat:f incrbyfloat:f incrbyfloat:f
		SET f 5.0e3 -> +OK
		INCRBYFLOAT f 2.0e2 -> "5200"
		SET f 3.0 -> +OK
		INCRBYFLOAT f 1.0 -> "4"
		GET f -> "4"
		INCR f -> 5
		SET f -1 -> +OK
		INCRBYFLOAT f 1 -> "0"
		SET f 0x10 -> +OK
		INCRBYFLOAT f 0 -> "16"
		INCRBYFLOAT f 1e-20 -> "16"
		SET f 17179869184 -> +OK
		INCRBYFLOAT f 1 -> "17179869185"
		INCRBYFLOAT f nan -> -ERR value is not a valid float
		INCRBYFLOAT f abc -> -ERR value is not a valid float
		INCRBYFLOAT f "" -> -ERR value is not a valid float
		INCRBYFLOAT f " 1" -> -ERR value is not a valid float
		INCRBYFLOAT f "1 " -> -ERR value is not a valid float
		INCRBYFLOAT f inf -> -ERR increment would produce NaN or Infinity
		INCRBYFLOAT f -inf -> -ERR increment would produce NaN or Infinity
		GET f -> "17179869185"
		SET f "1 2" -> +OK
		INCRBYFLOAT f 1 -> -ERR value is not a valid float
		SET f "" -> +OK
		INCRBYFLOAT f 1 -> -ERR value is not a valid float
		SET f 1e4932 -> +OK
		INCRBYFLOAT f 1e4932 -> -ERR increment would produce NaN or Infinity
	`)
}
