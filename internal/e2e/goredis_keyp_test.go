package e2e

import (
	"slices"
	"testing"
	"time"
)

// TestGoRedisKeyp sends Keyp's own commands.
func TestGoRedisKeyp(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "KEYP.UNTIMED", run: untimedKeys, newer: "Keyp's own"},
	})
}

// walkKeyp sends a walk page by page, and gives what all pages have.
func walkKeyp(t *testing.T, c subject, words ...any) (all []any) {
	t.Helper()
	cursor := any("0")
	for range 1000 {
		reply, err := c.do(append(slices.Clone(words), "CURSOR", cursor)...)
		page, ok := reply.([]any)
		if err != nil || !ok || len(page) != 2 {
			t.Fatalf("%v: %v, %v", words, reply, err)
		}
		all = append(all, page[1].([]any)...)
		if cursor = page[0]; cursor == "0" {
			return all
		}
	}
	t.Fatalf("%v does not end", words)
	return nil
}

func untimedKeys(t *testing.T, c subject) {
	is(t, "OK")(c.Set(ctx, "timed", "v", time.Hour).Result())
	is(t, "OK")(c.MSet(ctx, "a", 1, "b", 2, "c", 3).Result())
	is(t, int64(1))(c.HSet(ctx, "h", "f", "v").Result())
	is(t, []int64{1})(c.HExpire(ctx, "h", time.Hour, "f").Result())
	var names []string
	for _, name := range walkKeyp(t, c, "KEYP.UNTIMED", "COUNT", 1) {
		names = append(names, name.(string))
	}
	slices.Sort(names)
	is(t, []string{"a", "b", "c", "h"})(names, nil)
	is(t, any([]any{"0", []any{"h"}}))(c.do("KEYP.UNTIMED", "TYPE", "hash", "MATCH", "?"))
	fails(t, "ERR invalid cursor", c.Do(ctx, "KEYP.UNTIMED", "CURSOR", "x"))
}
