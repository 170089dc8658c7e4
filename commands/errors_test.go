package commands

import (
	"strings"
	"testing"
)

// TestUnknownTexts: an error quotes only a limited part of the client's text, and ends the
// quotation at a NUL.
func TestUnknownTexts(t *testing.T) {
	x, y := strings.Repeat("x", 200), strings.Repeat("y", 100)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"NOSUCH"}, "ERR unknown command 'NOSUCH', with args beginning with: "},
		{[]string{"NOSUCH", "a", "b"},
			"ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' "},
		{[]string{x, x, "b"}, "ERR unknown command '" + x[:128] + "', with args beginning with: '" +
			x[:128] + "' "},
		{[]string{"N", y, y, y}, "ERR unknown command 'N', with args beginning with: '" + y +
			"' '" + y[:25] + "' "},
		{[]string{"get\x00", "k\x00z"},
			"ERR unknown command 'get', with args beginning with: 'k' "},
		{[]string{"OBJECT", "no\x00pe"}, "ERR unknown subcommand 'no'. Try OBJECT HELP."},
	} {
		if got := newHarness(t).do(tt.args...); got != "-"+tt.want {
			t.Errorf("%.60q:\n%s\nwant\n%s", tt.args, got, tt.want)
		}
	}
}
