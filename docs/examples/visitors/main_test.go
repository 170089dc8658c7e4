package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
)

var noon = time.Date(2026, 2, 24, 12, 0, 0, 0, time.UTC)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), testkit.Keyp(t).Client(3), noon, &out); err != nil {
		t.Fatal(err)
	}
	want := "days: 1, visitors: 2\ndays: 2, visitors: 3\n"
	if out.String() != want {
		t.Errorf("it prints\n%swant\n%s", out.String(), want)
	}
}

// TestVisitors: the count of thousands of visitors is estimated well. After the server is killed,
// the estimate and the deadline that the first visit set are still there.
func TestVisitors(t *testing.T) {
	server := testkit.Keyp(t)
	page := Page{server.Client(3), "home"}
	const visitors = 2000
	for i := range visitors {
		if err := page.Visit(t.Context(), fmt.Sprint("visitor ", i), noon); err != nil {
			t.Fatal(err)
		}
	}
	at := page.Redis.PExpireTime(t.Context(), page.key(noon)).Val()
	before, err := page.Visitors(t.Context(), noon, 7)
	if err != nil || before < visitors*95/100 || before > visitors*105/100 {
		t.Errorf("%d visitors are estimated to be %d, %v", visitors, before, err)
	}
	server.Kill()
	server.Start()
	if n, err := page.Visitors(t.Context(), noon, 7); n != before || err != nil {
		t.Errorf("after a restart: %d, %v, before it %d", n, err, before)
	}
	if again := page.Redis.PExpireTime(t.Context(), page.key(noon)).Val(); again != at || at <= 0 {
		t.Errorf("the deadline moved from %v to %v", at, again)
	}
}
