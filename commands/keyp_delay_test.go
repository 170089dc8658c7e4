package commands

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyp/internal/rdb"
	"keyp/resp"
	"keyp/storage"
	"keyp/storage/object"
)

// delays runs a table of commands and replies about delay queues. In the table, T+n means n ms
// after the time at which the test's clock starts. @ms.n is the n-th receipt (the number of a
// delivery) of a store that was started ms after that time: a store's receipts begin with its start
// time.
func delays(t *testing.T, steps string) {
	t.Helper()
	leaseTable(t, receipts(steps))
}

var receiptPattern = regexp.MustCompile(`@(\d+)\.(\d+)`)

func receipts(steps string) string {
	return receiptPattern.ReplaceAllStringFunc(steps, func(s string) string {
		part := receiptPattern.FindStringSubmatch(s)
		ms, _ := strconv.Atoi(part[1])
		n, _ := strconv.Atoi(part[2])
		return fmt.Sprint((epoch+int64(ms))*1000 + int64(n))
	})
}

func TestDelay(t *testing.T) {
	delays(t, `
		KEYP.DELAY ADD q a T+000500 one -> 1
		KEYP.DELAY ADD q b +200 two -> 1
		KEYP.DELAY ADD q c T+000500 three -> 1
		TYPE q -> +delay
		OBJECT ENCODING q -> "delay"
		KEYP.DELAY LEN q -> 3
		KEYP.DELAY POP q VISIBILITY 1000 -> nilarray
		KEYP.DELAY INFO q -> ["jobs", 3, "due", 0, "delivered", 0, "first", T+000200, "last", T+000500, "waiting", 0]
		KEYP.DELAY RANGE q - + -> [["T+000200-2", "b", T+000200, 0, nil, "two"], ["T+000500-1", "a", T+000500, 0, nil, "one"], ["T+000500-3", "c", T+000500, 0, nil, "three"]]
		advance 199ms
		KEYP.DELAY POP q VISIBILITY 1000 -> nilarray
		advance 1ms
		KEYP.DELAY POP q COUNT 5 VISIBILITY 1000 -> [["b", "two", "@0.1-b", 1]]
		KEYP.DELAY POP q COUNT 5 VISIBILITY 1000 -> nilarray
		advance 300ms
		KEYP.DELAY INFO q -> ["jobs", 3, "due", 2, "delivered", 1, "first", T+000500, "last", T+001200, "waiting", 0]
		reopen
		KEYP.DELAY INFO q -> ["jobs", 3, "due", 2, "delivered", 1, "first", T+000500, "last", T+001200, "waiting", 0]
		# at the same due time they come as they were added, and are gone at once without acknowledgement
		KEYP.DELAY POP q COUNT 5 NOACK -> [["a", "one", nil, 1], ["c", "three", nil, 1]]
		# its time is up: it is delivered again, and the old receipt is stale
		advance 699ms
		KEYP.DELAY POP q VISIBILITY 1000 -> nilarray
		advance 1ms
		KEYP.DELAY POP q VISIBILITY 1000 -> [["b", "two", "@500.1-b", 2]]
		KEYP.DELAY ACK q @0.1-b -> 0
		KEYP.DELAY EXTEND q @0.1-b 5 -> 0
		KEYP.DELAY NACK q @0.1-b -> 0
		reopen
		KEYP.DELAY ACK q @500.1-b @0.1-b @500.1-b -> 1
		# a queue without jobs is no key
		EXISTS q -> 0
		KEYP.DELAY LEN q -> 0
		KEYP.DELAY INFO q -> ["jobs", 0, "due", 0, "delivered", 0, "first", 0, "last", 0, "waiting", 0]
		KEYP.DELAY RANGE q - + -> []
		KEYP.DELAY ACK q @500.1-b -> 0
		# several are done at once
		KEYP.DELAY ADD q d 0 four -> 1
		KEYP.DELAY ADD q e 0 five -> 1
		KEYP.DELAY POP q COUNT 2 VISIBILITY 1000 -> [["d", "four", "@1200.1-d", 1], ["e", "five", "@1200.2-e", 1]]
		KEYP.DELAY ACK q @1200.1-d @1200.2-e -> 2
	`)
}

// TestDelayChanges: a job can be added again, extended, given back, rescheduled and cancelled.
func TestDelayChanges(t *testing.T) {
	delays(t, `
		KEYP.DELAY ADD q a 0 one -> 1
		KEYP.DELAY ADD q a 0 two NX -> 0
		KEYP.DELAY POP q VISIBILITY 1000 -> [["a", "one", "@0.1-a", 1]]
		# extended: from now on, and with the same receipt; also shorter
		advance 500ms
		KEYP.DELAY EXTEND q @0.1-a 2000 -> 1
		reopen
		advance 1999ms
		KEYP.DELAY POP q VISIBILITY 1000 -> nilarray
		KEYP.DELAY EXTEND q @0.1-a 0 -> 1
		KEYP.DELAY POP q VISIBILITY 1000 -> [["a", "one", "@500.1-a", 2]]
		# whose time is up has it until somebody else does
		advance 1000ms
		KEYP.DELAY INFO q -> ["jobs", 1, "due", 1, "delivered", 1, "first", T+003499, "last", T+003499, "waiting", 0]
		KEYP.DELAY EXTEND q @500.1-a 1000 -> 1
		KEYP.DELAY POP q VISIBILITY 1000 -> nilarray
		# given back: after a delay, and at once
		KEYP.DELAY NACK q @500.1-a DELAY 300 -> 1
		KEYP.DELAY NACK q @500.1-a -> 0
		KEYP.DELAY INFO q -> ["jobs", 1, "due", 0, "delivered", 0, "first", T+003799, "last", T+003799, "waiting", 0]
		advance 300ms
		KEYP.DELAY POP q VISIBILITY 1000 -> [["a", "one", "@500.2-a", 3]]
		KEYP.DELAY NACK q @500.2-a -> 1
		reopen
		KEYP.DELAY POP q VISIBILITY 1000 -> [["a", "one", "@3799.1-a", 4]]
		# rescheduled: nobody has it any more
		KEYP.DELAY RESCHEDULE q a +100 -> 1
		KEYP.DELAY ACK q @3799.1-a -> 0
		KEYP.DELAY RESCHEDULE q b +100 -> 0
		advance 100ms
		KEYP.DELAY POP q VISIBILITY 1000 -> [["a", "one", "@3799.2-a", 5]]
		# added again: a job that was never delivered, behind others
		KEYP.DELAY ADD q b T+000000 other -> 1
		KEYP.DELAY ADD q a T+000000 new -> 0
		KEYP.DELAY ACK q @3799.2-a -> 0
		reopen
		KEYP.DELAY RANGE q - + -> [["T+000000-2", "b", T+000000, 0, nil, "other"], ["T+000000-3", "a", T+000000, 0, nil, "new"]]
		KEYP.DELAY CANCEL q a x a -> 1
		KEYP.DELAY LEN q -> 1
		KEYP.DELAY CANCEL q b -> 1
		EXISTS q -> 0
		KEYP.DELAY CANCEL q b -> 0
		KEYP.DELAY RESCHEDULE q b 1000000000005 -> 0
		EXISTS q -> 0
	`)
}

func TestDelayDeadLetters(t *testing.T) {
	delays(t, `
		KEYP.DELAY ADD q a 0 one -> 1
		KEYP.DELAY ADD q b 1000000000001 two -> 1
		KEYP.DELAY POP q VISIBILITY 100 MAXDELIVERIES 2 DEADLETTER dead -> [["a", "one", "@0.1-a", 1]]
		advance 100ms
		KEYP.DELAY POP q VISIBILITY 100 DEADLETTER dead MAXDELIVERIES 2 COUNT 2 -> [["b", "two", "@0.2-b", 1], ["a", "one", "@0.3-a", 2]]
		# given back after its second delivery, and found due after it
		KEYP.DELAY NACK q @0.2-b MAXDELIVERIES 2 DEADLETTER dead -> 1
		KEYP.DELAY NACK q @0.3-a DELAY 5 DEADLETTER dead MAXDELIVERIES 2 -> 1
		XRANGE dead - + -> [["T+000100-0", ["id", "a", "payload", "one", "queue", "q", "deliveries", "2", "due", "T+000200"]]]
		KEYP.DELAY POP q VISIBILITY 100 MAXDELIVERIES 2 DEADLETTER dead -> [["b", "two", "@0.4-b", 2]]
		advance 100ms
		KEYP.DELAY ADD q c 1000000000007 three -> 1
		KEYP.DELAY ADD q d T+000200 four -> 1
		reopen
		KEYP.DELAY POP q VISIBILITY 100 MAXDELIVERIES 2 DEADLETTER dead COUNT 2 -> [["c", "three", "@200.1-c", 1], ["d", "four", "@200.2-d", 1]]
		XRANGE dead (T+000100-0 + -> [["T+000200-0", ["id", "b", "payload", "two", "queue", "q", "deliveries", "2", "due", "T+000200"]]]
		KEYP.DELAY LEN q -> 2
		# without the options jobs are delivered as often as it takes
		KEYP.DELAY NACK q @200.1-c -> 1
		KEYP.DELAY POP q VISIBILITY 0 -> [["c", "three", "@200.3-c", 2]]
		KEYP.DELAY POP q VISIBILITY 0 -> [["c", "three", "@200.4-c", 3]]
		# nothing but dead jobs: they go, and the queue with the last
		KEYP.DELAY CANCEL q d -> 1
		KEYP.DELAY POP q VISIBILITY 100 MAXDELIVERIES 2 DEADLETTER dead -> nilarray
		EXISTS q -> 0
		XLEN dead -> 3
		reopen
		XLEN dead -> 3
		EXISTS q -> 0
		SET s v -> +OK
		KEYP.DELAY ADD q a 0 one -> 1
		KEYP.DELAY POP q VISIBILITY 100 MAXDELIVERIES 2 DEADLETTER s -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.DELAY POP q VISIBILITY 100 MAXDELIVERIES 2 DEADLETTER q -> -ERR the dead letters of a queue are another key
		XADD full 18446744073709551615-18446744073709551615 f v -> "18446744073709551615-18446744073709551615"
		KEYP.DELAY POP q VISIBILITY 100 MAXDELIVERIES 2 DEADLETTER full -> -ERR The stream has exhausted the last possible ID, unable to add more items
		KEYP.DELAY RANGE q - + -> [["0-1", "a", 0, 0, nil, "one"]]
	`)
}

func TestDelayRange(t *testing.T) {
	table(t, `
		KEYP.DELAY ADD q a 1000000000010 1 -> 1
		KEYP.DELAY ADD q b 1000000000010 2 -> 1
		KEYP.DELAY ADD q c 1000000000010 3 -> 1
		KEYP.DELAY ADD q d 1000000000020 4 -> 1
		KEYP.DELAY RANGE q - + COUNT 1 -> [["1000000000010-1", "a", 1000000000010, 0, nil, "1"]]
		KEYP.DELAY RANGE q (1000000000010-1 + COUNT 2 -> [["1000000000010-2", "b", 1000000000010, 0, nil, "2"], ["1000000000010-3", "c", 1000000000010, 0, nil, "3"]]
		KEYP.DELAY RANGE q (1000000000010-3 + COUNT 2 -> [["1000000000020-4", "d", 1000000000020, 0, nil, "4"]]
		KEYP.DELAY RANGE q (1000000000020-4 + COUNT 2 -> []
		KEYP.DELAY RANGE q 1000000000010-2 1000000000010-2 -> [["1000000000010-2", "b", 1000000000010, 0, nil, "2"]]
		KEYP.DELAY RANGE q 1000000000010-2 (1000000000010-3 -> [["1000000000010-2", "b", 1000000000010, 0, nil, "2"]]
		KEYP.DELAY RANGE q (1000000000010 1000000000020 -> [["1000000000020-4", "d", 1000000000020, 0, nil, "4"]]
		KEYP.DELAY RANGE q 1000000000010-3 1000000000020 -> [["1000000000010-3", "c", 1000000000010, 0, nil, "3"], ["1000000000020-4", "d", 1000000000020, 0, nil, "4"]]
		KEYP.DELAY RANGE q 1000000000010 (1000000000020 COUNT 1000 -> [["1000000000010-1", "a", 1000000000010, 0, nil, "1"], ["1000000000010-2", "b", 1000000000010, 0, nil, "2"], ["1000000000010-3", "c", 1000000000010, 0, nil, "3"]]
		KEYP.DELAY RANGE q 1000000000010 1000000000010 COUNT 1 -> [["1000000000010-1", "a", 1000000000010, 0, nil, "1"]]
		KEYP.DELAY RANGE q (1000000000010-18446744073709551615 + -> [["1000000000020-4", "d", 1000000000020, 0, nil, "4"]]
		KEYP.DELAY RANGE q 281474976710655 + -> []
		KEYP.DELAY RANGE q + - -> []
		KEYP.DELAY RANGE none - + -> []
		KEYP.DELAY RANGE q x + -> -ERR start and end are -, +, Unix milliseconds or the place of a job
		KEYP.DELAY RANGE q 1000000000010-x + -> -ERR start and end are -, +, Unix milliseconds or the place of a job
		KEYP.DELAY RANGE q -1 + -> -ERR start and end are -, +, Unix milliseconds or the place of a job
		KEYP.DELAY RANGE q - 281474976710656 -> -ERR start and end are -, +, Unix milliseconds or the place of a job
		KEYP.DELAY RANGE q - + COUNT 0 -> -ERR COUNT is between 1 and 1000
		KEYP.DELAY RANGE q - + COUNT 1001 -> -ERR COUNT is between 1 and 1000
		KEYP.DELAY RANGE q - + COUNT -> -ERR COUNT needs a value
		KEYP.DELAY RANGE q - + X -> -ERR syntax error: 'X' is no option here
	`)
}

func TestDelayArguments(t *testing.T) {
	table(t, `
		KEYP.DELAY -> -ERR wrong number of arguments for 'keyp.delay' command
		KEYP.DELAY ADD q a 1000000000001 -> -ERR wrong number of arguments for 'keyp.delay|add' command
		KEYP.DELAY ADD q "" 1000000000001 p -> -ERR the id of a job has 1 to 512 bytes
		KEYP.DELAY ADD q a x p -> -ERR due is in Unix milliseconds, up to 281474976710655, or + and a time from now, such as +60000 or +1m
		KEYP.DELAY ADD q a -1 p -> -ERR due is in Unix milliseconds, up to 281474976710655, or + and a time from now, such as +60000 or +1m
		KEYP.DELAY ADD q a +-1 p -> -ERR due is in Unix milliseconds, up to 281474976710655, or + and a time from now, such as +60000 or +1m
		KEYP.DELAY ADD q a 281474976710656 p -> -ERR due is in Unix milliseconds, up to 281474976710655, or + and a time from now, such as +60000 or +1m
		KEYP.DELAY ADD q a +281474976710655 p -> -ERR due is in Unix milliseconds, up to 281474976710655, or + and a time from now, such as +60000 or +1m
		KEYP.DELAY ADD q a 1000000000001 p XX -> -ERR syntax error: 'XX' is no option here
		KEYP.DELAY ADD q a 1000000000001 p NX NX -> -ERR NX is given twice
		EXISTS q -> 0
		KEYP.DELAY ADD q a 281474976710655 "" -> 1
		KEYP.DELAY POP -> -ERR wrong number of arguments for 'keyp.delay|pop' command
		KEYP.DELAY POP q -> -ERR POP needs VISIBILITY or NOACK
		KEYP.DELAY POP q COUNT 1 -> -ERR POP needs VISIBILITY or NOACK
		KEYP.DELAY POP q NOACK VISIBILITY 1 -> -ERR NOACK and VISIBILITY exclude each other
		KEYP.DELAY POP q VISIBILITY 1 NOACK -> -ERR VISIBILITY and NOACK exclude each other
		KEYP.DELAY POP q VISIBILITY 31622400001 -> -ERR VISIBILITY, DELAY and the time of EXTEND are between 0 and 31622400000 milliseconds, or have a unit, such as 30s
		KEYP.DELAY POP q VISIBILITY -1 -> -ERR VISIBILITY, DELAY and the time of EXTEND are between 0 and 31622400000 milliseconds, or have a unit, such as 30s
		KEYP.DELAY POP q COUNT 0 NOACK -> -ERR COUNT is between 1 and 1000
		KEYP.DELAY POP q COUNT 1001 NOACK -> -ERR COUNT is between 1 and 1000
		KEYP.DELAY POP q BLOCK -1 NOACK -> -ERR BLOCK is 0 or more milliseconds, or has a unit, such as 5s
		KEYP.DELAY POP q NOACK MAXDELIVERIES 1 -> -ERR MAXDELIVERIES and DEADLETTER need each other
		KEYP.DELAY POP q NOACK DEADLETTER d -> -ERR MAXDELIVERIES and DEADLETTER need each other
		KEYP.DELAY POP q NOACK MAXDELIVERIES 0 DEADLETTER d -> -ERR MAXDELIVERIES is between 1 and 1000000
		KEYP.DELAY POP q NOACK MAXDELIVERIES 1000001 DEADLETTER d -> -ERR MAXDELIVERIES is between 1 and 1000000
		KEYP.DELAY POP q NOACK MAXDELIVERIES 1 DEADLETTER d DEADLETTER d -> -ERR DEADLETTER is given twice
		KEYP.DELAY EXTEND q 1-a -1 -> -ERR VISIBILITY, DELAY and the time of EXTEND are between 0 and 31622400000 milliseconds, or have a unit, such as 30s
		KEYP.DELAY NACK q 1-a DELAY x -> -ERR VISIBILITY, DELAY and the time of EXTEND are between 0 and 31622400000 milliseconds, or have a unit, such as 30s
		KEYP.DELAY NACK q 1-a MAXDELIVERIES 1 -> -ERR MAXDELIVERIES and DEADLETTER need each other
		KEYP.DELAY NACK q 1-a OTHER -> -ERR syntax error: 'OTHER' is no option here
		KEYP.DELAY RESCHEDULE q "" 1000000000001 -> -ERR the id of a job has 1 to 512 bytes
		KEYP.DELAY RESCHEDULE q a x -> -ERR due is in Unix milliseconds, up to 281474976710655, or + and a time from now, such as +60000 or +1m
		# receipts that are none, and that of a job that nobody has
		KEYP.DELAY ACK q "" a 0-a -a 1- 1-a 18446744073709551616-a -1-a -> 0
		SET s v -> +OK
		KEYP.DELAY ADD s a 1000000000001 p -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.DELAY POP s NOACK -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.DELAY ACK s 1-a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.DELAY EXTEND s 1-a 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.DELAY NACK s 1-a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.DELAY CANCEL s a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.DELAY RESCHEDULE s a 1000000000001 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.DELAY LEN s -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.DELAY INFO s -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.DELAY RANGE s - + -> -WRONGTYPE Operation against a key holding the wrong kind of value
		LPUSH q x -> -WRONGTYPE Operation against a key holding the wrong kind of value
	`)
}

// TestDelayKeys runs commands for keys of any type on a delay queue.
func TestDelayKeys(t *testing.T) {
	delays(t, `
		KEYP.DELAY ADD q a T+000500 one -> 1
		KEYP.DELAY ADD q b 0 two -> 1
		KEYP.DELAY POP q VISIBILITY 1000 -> [["b", "two", "@0.1-b", 1]]
		KEYS * -> ["q"]
		SCAN 0 TYPE delay -> ["0", ["q"]]
		SCAN 0 TYPE string -> ["0", []]
		OBJECT REFCOUNT q -> 1
		PTTL q -> -1
		# a copy has the jobs with their receipts
		COPY q c -> 1
		RENAME q r -> +OK
		EXISTS q -> 0
		KEYP.DELAY ACK c @0.1-b -> 1
		KEYP.DELAY LEN r -> 2
		reopen
		KEYP.DELAY RANGE c - + -> [["T+000500-1", "a", T+000500, 0, nil, "one"]]
		KEYP.DELAY RANGE r - + -> [["T+000500-1", "a", T+000500, 0, nil, "one"], ["T+001000-2", "b", T+001000, 1, "@0.1-b", "two"]]
		MOVE r 1 -> 1
		select 1
		KEYP.DELAY EXTEND r @0.1-b 5000 -> 1
		# a queue expires like any key, jobs and all
		PEXPIRE r 5000 -> 1
		KEYP.EXPIRING - + TYPE delay -> ["0", [["r", T+005000]]]
		reopen
		advance 4999ms
		KEYP.DELAY LEN r -> 2
		advance 1ms
		KEYP.DELAY LEN r -> 0
		KEYP.DELAY POP r VISIBILITY 1 -> nilarray
		select 0
		SET c v -> +OK
		GET c -> "v"
	`)
	h := newHarness(t)
	h.run(`KEYP.DELAY ADD q a 1000000000005 one -> 1`)
	empty := h.digest("DIGEST-VALUE", "none")
	if one := h.digest("DIGEST-VALUE", "q"); one == empty {
		t.Errorf("the digest of a queue is that of no key: %s", one)
	}
	before := h.digest("DIGEST")
	h.run(`KEYP.DELAY RESCHEDULE q a 1000000000006 -> 1`)
	if h.digest("DIGEST") == before {
		t.Error("another due time does not change the digest")
	}
	small, _ := strconv.Atoi(h.do("MEMORY", "USAGE", "q"))
	h.do("KEYP.DELAY", "ADD", "q", "b", "1000000000005", strings.Repeat("x", 100_000))
	if large, _ := strconv.Atoi(h.do("MEMORY", "USAGE", "q")); small < 100 ||
		large < small+100_000 {
		t.Errorf("MEMORY USAGE: %d, and %d with 100,000 bytes more", small, large)
	}
}

// TestDelayDump: the payload of DUMP has the jobs in order, with due times and deliveries. None of
// the restored jobs is in delivery.
func TestDelayDump(t *testing.T) {
	h := newHarness(t)
	h.run(receipts(tokens(`
		KEYP.DELAY ADD q z 1000000000500 first -> 1
		KEYP.DELAY ADD q a 1000000000500 second -> 1
		KEYP.DELAY ADD q m 0 third -> 1
		KEYP.DELAY POP q VISIBILITY 1000 -> [["m", "third", "@0.1-m", 1]]
	`)))
	payload := string(h.raw([]byte("DUMP"), []byte("q")))
	_, payload, _ = strings.Cut(payload, "\r\n")
	payload = strings.TrimSuffix(payload, "\r\n")
	if got := h.do("RESTORE", "r", "0", payload); got != "+OK" {
		t.Fatalf("RESTORE: %s", got)
	}
	h.run(receipts(tokens(`
		KEYP.DELAY ACK r @0.1-m -> 0
		KEYP.DELAY RANGE r - + -> [["1000000000500-1", "z", 1000000000500, 0, nil, "first"], ["1000000000500-2", "a", 1000000000500, 0, nil, "second"], ["T+001000-3", "m", T+001000, 1, nil, "third"]]
		KEYP.DELAY INFO r -> ["jobs", 3, "due", 2, "delivered", 0, "first", 1000000000500, "last", T+001000, "waiting", 0]
		reopen
		KEYP.DELAY POP r COUNT 5 VISIBILITY 5 -> [["z", "first", "@65.537-z", 1], ["a", "second", "@65.538-a", 1]]
	`)))
	for i := range len(payload) { // each byte in turn is another one
		broken := []byte(payload)
		broken[i]++
		if got := h.do("RESTORE", "broken", "0", string(broken)); got[0] != '-' {
			t.Errorf("byte %d: %s", i, got)
		}
	}
	// DUMP cannot have made these payloads: a job with a receipt, and an incomplete job.
	for name, job := range map[string][]byte{
		"a receipt":  (&object.Job{Due: 5, Number: 1, Receipt: 9}).Append(nil),
		"half a job": {0, 0, 0},
	} {
		forged := rdb.Encode(rdb.Value{Type: rdb.Delay,
			Elements: func(yield func(rdb.Element) bool) {
				yield(rdb.Element{Name: []byte("id"), Value: job})
			}})
		if got := h.do("RESTORE", "forged", "0", string(forged)); got != "-"+string(ErrDataFormat) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestDelayEvents(t *testing.T) {
	h := newHarness(t)
	h.store.SetEvents(eventDelayAdd.Class | storage.EventStream | 1)
	h.run(receipts(tokens(`
		KEYP.DELAY ADD q a 0 one -> 1
		KEYP.DELAY ADD q a 0 two NX -> 0
		KEYP.DELAY POP none NOACK -> nilarray
		events -> delay.add:q
		KEYP.DELAY POP q VISIBILITY 1000 -> [["a", "one", "@0.1-a", 1]]
		KEYP.DELAY POP q VISIBILITY 1000 -> nilarray
		KEYP.DELAY RANGE q - + COUNT 1 -> [["T+001000-1", "a", T+001000, 1, "@0.1-a", "one"]]
		events -> delay.pop:q
		KEYP.DELAY EXTEND q @0.1-a 5 -> 1
		KEYP.DELAY EXTEND q @0.2-a 5 -> 0
		KEYP.DELAY NACK q @0.1-a DELAY 7 -> 1
		KEYP.DELAY NACK q @0.1-a DELAY 7 -> 0
		KEYP.DELAY RESCHEDULE q a 0 -> 1
		KEYP.DELAY RESCHEDULE q b 0 -> 0
		events -> delay.extend:q delay.nack:q delay.reschedule:q
		KEYP.DELAY POP q NOACK MAXDELIVERIES 1 DEADLETTER dead -> nilarray
		events -> xadd:dead delay.dead:q del:q
		KEYP.DELAY ADD q b 0 two -> 1
		KEYP.DELAY CANCEL q b a -> 1
		KEYP.DELAY CANCEL q b a -> 0
		KEYP.DELAY ADD q b 0 two -> 1
		KEYP.DELAY POP q VISIBILITY 0 -> [["b", "two", "@0.2-b", 1]]
		KEYP.DELAY ACK q @0.2-b -> 1
		KEYP.DELAY ACK q @0.2-b -> 0
		events -> delay.add:q delay.cancel:q del:q delay.add:q delay.pop:q delay.ack:q del:q
	`)))
}

// TestDelayPolicies: policies do not apply to queues. They apply to the stream of dead letters as
// to any stream.
func TestDelayPolicies(t *testing.T) {
	delays(t, `
		KEYP.POLICY SET p PATTERN * ENFORCE DEFAULT 1s MAX 1s CUT SLIDE 1s -> +OK
		KEYP.DELAY ADD q a 0 one -> 1
		KEYP.DELAY POP q VISIBILITY 0 -> [["a", "one", "@0.1-a", 1]]
		TOUCH q -> 1
		KEYP.POLICY APPLY p -> ["0", 1, 0]
		PTTL q -> -1
		PEXPIRE q 900 -> 1
		advance 500ms
		KEYP.DELAY LEN q -> 1
		KEYP.DELAY INFO q -> ["jobs", 1, "due", 1, "delivered", 1, "first", T+000000, "last", T+000000, "waiting", 0]
		PTTL q -> 400
		KEYP.DELAY ADD q b 0 two -> 1
		PTTL q -> 400
		KEYP.DELAY POP q VISIBILITY 0 MAXDELIVERIES 1 DEADLETTER dead COUNT 2 -> [["b", "two", "@0.2-b", 1]]
		XLEN dead -> 1
		PTTL dead -> 1000
		KEYP.POLICY SET p PATTERN * ENFORCE REQUIRE -> +OK
		KEYP.DELAY ADD other a 0 one -> 1
	`)
}

// TestDelayRights: the stream of dead letters is a key of the command. A user needs rights to it,
// and in a cluster it must be in the queue's slot.
func TestDelayRights(t *testing.T) {
	delays(t, `
		COMMAND GETKEYS KEYP.DELAY POP q COUNT 5 NOACK MAXDELIVERIES 2 DEADLETTER dead -> ["q", "dead"]
		COMMAND GETKEYS KEYP.DELAY POP q VISIBILITY 5 deadletter dead MAXDELIVERIES 2 -> ["q", "dead"]
		COMMAND GETKEYS KEYP.DELAY POP q VISIBILITY 5 -> ["q"]
		COMMAND GETKEYS KEYP.DELAY POP DEADLETTER VISIBILITY 5 -> ["DEADLETTER"]
		COMMAND GETKEYS KEYP.DELAY NACK q DEADLETTER DELAY 5 MAXDELIVERIES 2 DEADLETTER dead -> ["q", "dead"]
		COMMAND GETKEYS KEYP.DELAY NACK q DEADLETTER -> ["q"]
		COMMAND GETKEYS KEYP.DELAY ADD q id 0 DEADLETTER -> ["q"]
		KEYP.DELAY ADD q a 0 one -> 1
		ACL SETUSER worker on nopass ~q %W~dead +keyp.delay -> +OK
		ACL SETUSER other on nopass ~q +keyp.delay -> +OK
		AUTH other x -> +OK
		KEYP.DELAY POP q VISIBILITY 0 MAXDELIVERIES 1 DEADLETTER dead -> -NOPERM No permissions to access a key
		KEYP.DELAY NACK q 1-a MAXDELIVERIES 1 DEADLETTER dead -> -NOPERM No permissions to access a key
		KEYP.DELAY POP q VISIBILITY 0 -> [["a", "one", "@0.1-a", 1]]
		AUTH worker x -> +OK
		KEYP.DELAY POP q VISIBILITY 0 MAXDELIVERIES 1 DEADLETTER dead -> nilarray
	`)
}

// TestDelayManyDead: one call moves a limited number of jobs to the dead letters. A blocked call
// continues at once with the rest.
func TestDelayManyDead(t *testing.T) {
	h := newHarness(t)
	const jobs = 2*maxDeadJobs + 5
	for i := range jobs {
		h.do("KEYP.DELAY", "ADD", "q", fmt.Sprint(i), "0", "x")
	}
	for range 3 {
		h.do("KEYP.DELAY", "POP", "q", "COUNT", "1000", "VISIBILITY", "1")
	}
	h.clock.Advance(time.Millisecond)
	h.run(`
		KEYP.DELAY POP q VISIBILITY 0 MAXDELIVERIES 1 DEADLETTER dead -> nilarray
		XLEN dead -> 1000
		KEYP.DELAY POP q BLOCK 0 VISIBILITY 0 MAXDELIVERIES 1 DEADLETTER dead -> +(blocked)
	`)
	if again := h.ctx.Wait.Again; again != 1 {
		t.Errorf("it runs again after %d ms", again)
	}
	h.run(`
		XLEN dead -> 2000
		KEYP.DELAY POP q BLOCK 0 VISIBILITY 0 MAXDELIVERIES 1 DEADLETTER dead -> +(blocked)
		XLEN dead -> 2005
		EXISTS q -> 0
	`)
}

// TestDelayLooks: a client that waits for a job in the distant future runs again from time to time,
// because the clock may be set forward.
func TestDelayLooks(t *testing.T) {
	h := newHarness(t)
	for _, c := range []struct {
		due   string
		again int64
	}{{"+100", 100}, {"+1000000", jobsLook}} {
		h.do("KEYP.DELAY", "ADD", "q", "a", c.due, "x")
		if got := h.do("KEYP.DELAY", "POP", "q", "BLOCK", "0", "NOACK", "MAXDELIVERIES", "1",
			"DEADLETTER", "dead"); got != "+(blocked)" || h.ctx.Wait.Again != c.again ||
			len(h.ctx.Wait.Keys) != 1 {
			t.Errorf("due %s: %s, again after %d, %d keys", c.due, got, h.ctx.Wait.Again,
				len(h.ctx.Wait.Keys))
		}
	}
	h.do("DEL", "q")
	if h.do("KEYP.DELAY", "POP", "q", "BLOCK", "70", "NOACK"); h.ctx.Wait.Again != 0 ||
		h.ctx.Wait.Timeout != 70 {
		t.Errorf("without jobs it runs again after %d, and waits %d", h.ctx.Wait.Again,
			h.ctx.Wait.Timeout)
	}
}

// TestDelayWithoutMemory: if memory is full, no job can be added. Existing jobs can still be
// delivered, given back and completed.
func TestDelayWithoutMemory(t *testing.T) {
	table(t, `
		CONFIG SET maxmemory 2mb -> +OK
		KEYP.DELAY ADD q a 0 x -> 1
		EVAL "local v = string.rep('x', 1000000) for i = 1, 3 do redis.call('set', i, v) end return redis.pcall('keyp.delay', 'add', 'q', 'b', 0, 'y')" 0 -> -OOM command not allowed when used memory > 'maxmemory'.
		EVAL "local v = string.rep('x', 1000000) for i = 1, 3 do redis.call('set', i, v) end return redis.call('keyp.delay', 'pop', 'q', 'visibility', 1000)" 0 -> [["a", "x", "1700000000000001-a", 1]]
		EVAL "local v = string.rep('x', 1000000) for i = 1, 3 do redis.call('set', i, v) end return redis.call('keyp.delay', 'nack', 'q', ARGV[1])" 0 1700000000000001-a -> 1
		EVAL "local v = string.rep('x', 1000000) for i = 1, 3 do redis.call('set', i, v) end return redis.call('keyp.delay', 'reschedule', 'q', 'a', 0)" 0 -> 1
		KEYP.DELAY POP q NOACK -> [["a", "x", nil, 2]]
	`)
}

// TestDelayLargePayloads: the replies of POP and RANGE have a limit in bytes. RANGE of large jobs
// runs as a task.
func TestDelayLargePayloads(t *testing.T) {
	h := newHarness(t)
	payload := strings.Repeat("p", 400<<10)
	for i := range 5 {
		h.do("KEYP.DELAY", "ADD", "q", fmt.Sprint(i), "+0", payload)
	}
	h.do("KEYP.DELAY", "ADD", "q", "largest", "+0", strings.Repeat(payload, 4))
	h.clock.Advance(time.Millisecond)
	h.ctx.Args = byteArgs("KEYP.DELAY", "RANGE", "q", "-", "+")
	if out := h.env.Dispatch(&h.ctx); out != Task {
		t.Fatalf("RANGE: outcome %d", out)
	}
	task, out := Ctx{}, resp.Writer{Proto: 2}
	h.env.StartTask(&h.ctx, &task, &out, h.store.NewTxn(), false)
	h.env.RunTask(&task, nil)
	h.env.EndTask(&task)
	if n := strings.Count(string(out.Buf), payload); n != 3 {
		t.Errorf("the job lists %d times 400 KiB", n)
	}
	if got := h.do("KEYP.DELAY", "RANGE", "q", "(1700000000000-3", "+"); strings.Count(got,
		payload) != 6 || !strings.Contains(got, "largest") {
		t.Errorf("the next page lists %d times 400 KiB", strings.Count(got, payload))
	}
	var delivered []int
	for range 3 {
		reply := h.do("KEYP.DELAY", "POP", "q", "COUNT", "1000", "NOACK")
		delivered = append(delivered, strings.Count(reply, payload))
	}
	if got := fmt.Sprint(delivered); got != "[3 6 0]" {
		t.Errorf("POP delivers %s times 400 KiB", got)
	}
}
