package testkit

import "testing"

// TestReply: Reply accepts exactly the valid replies of RESP2 and RESP3, and returns the bytes
// after the first one.
func TestReply(t *testing.T) {
	tests := []struct {
		text  string
		proto int
		ok    bool
		rest  string
	}{
		{"+OK\r\n-ERR x\r\n", 2, true, "-ERR x\r\n"},
		{"+\r\n", 2, true, ""},
		{":-12\r\n", 2, true, ""},
		{":012\r\n", 2, false, ""},
		{":9223372036854775808\r\n", 2, false, ""},
		{":\r\n", 2, false, ""},
		{"$3\r\na\r\n\r\n", 2, true, ""},
		{"$3\r\nab\r\n", 2, false, ""},
		{"$2\r\nabc\r\n", 2, false, ""},
		{"$-1\r\n", 2, true, ""},
		{"$-1\r\n", 3, false, ""},
		{"$-1\r\n", 0, true, ""},
		{"*-1\r\n", 3, false, ""},
		{"*-2\r\n", 2, false, ""},
		{"_\r\n", 3, true, ""},
		{"_\r\n", 2, false, ""},
		{"*2\r\n:1\r\n*1\r\n+x\r\n:2\r\n", 2, true, ":2\r\n"},
		{"*2\r\n:1\r\n", 2, false, ""},
		{"%1\r\n+a\r\n,1.5\r\n", 3, true, ""},
		{"%1\r\n+a\r\n", 3, false, ""},
		{"%1\r\n+a\r\n:1\r\n", 2, false, ""},
		{",inf\r\n", 3, true, ""},
		{",1x\r\n", 3, false, ""},
		{"=5\r\ntxt:a\r\n", 3, true, ""},
		{"=3\r\ntxt\r\n", 3, false, ""},
		{"%-1\r\n", 3, false, ""},
		{"#t\r\n", 3, true, ""},
		{"#x\r\n", 3, false, ""},
		{"(-12345678901234567890\r\n", 3, true, ""},
		{"+a\nb\r\n", 2, false, ""},
		{"OK\r\n", 2, false, ""},
		{"+OK", 2, false, ""},
		{"", 2, false, ""},
	}
	for _, tt := range tests {
		rest, err := Reply([]byte(tt.text), tt.proto)
		if (err == nil) != tt.ok || string(rest) != tt.rest {
			t.Errorf("RESP%d %q: %q, %v", tt.proto, tt.text, rest, err)
		}
	}
}
