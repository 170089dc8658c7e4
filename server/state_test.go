package server

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

var stateNames = [states]string{
	serving: "serving", forLoad: "forLoad", forOwnTask: "forOwnTask", forPause: "forPause",
	forUnblock: "forUnblock", forTask: "forTask", forGroup: "forGroup",
	forRoom: "forRoom", forHandshake: "forHandshake", released: "released", halted: "halted",
	closing:   "closing",
	lingering: "lingering", condemned: "condemned", closed: "closed",
}

// TestStates makes every transition from every state. Those marked x are allowed. All others panic
// and change nothing.
func TestStates(t *testing.T) {
	methods := map[string]func(*session){
		"release": (*session).release, "wake": (*session).wake, "halt": (*session).halt,
		"finish": (*session).finish,
		"linger": (*session).linger, "condemn": (*session).condemn, "end": (*session).end,
	}
	to := map[string]state{
		"release": released, "wake": serving, "halt": halted, "finish": closing,
		"linger": lingering, "condemn": condemned, "end": closed,
	}
	for why := forLoad; why <= forHandshake; why++ {
		name := "wait " + stateNames[why]
		methods[name], to[name] = func(s *session) { s.wait(why) }, why
	}
	// The column wait is the same for each reason to wait.
	table := map[state]string{
		//             wait release wake halt finish linger condemn end
		serving:      " x     .      .    x     x      .      x     x ",
		forLoad:      " .     .      x    .     x      .      x     x ",
		forOwnTask:   " .     .      x    .     x      .      x     x ",
		forPause:     " .     x      x    .     x      .      x     x ",
		forUnblock:   " .     .      x    .     x      .      x     x ",
		forTask:      " .     x      x    .     x      .      x     x ",
		forGroup:     " .     x      x    .     x      .      x     x ",
		forRoom:      " .     .      x    .     x      .      x     x ",
		forHandshake: " .     .      x    .     x      x      x     x ",
		released:     " .     .      x    .     x      .      x     x ",
		halted:       " .     .      .    .     x      .      x     x ",
		closing:      " .     .      .    .     .      x      x     x ",
		lingering:    " .     .      .    .     .      .      x     x ",
		condemned:    " .     .      .    .     .      .      .     x ",
		closed:       " .     .      .    .     .      .      .     . ",
	}
	columns := []string{"wait", "release", "wake", "halt", "finish", "linger", "condemn", "end"}
	if len(table) != int(states) {
		t.Fatalf("the table has %d of %d states", len(table), states)
	}
	for from, row := range table {
		allowed := map[string]bool{}
		for i, cell := range strings.Fields(row) {
			allowed[columns[i]] = cell == "x"
		}
		for name, method := range methods {
			s := &session{state: from}
			panicked := panics(func() { method(s) })
			method, _, _ := strings.Cut(name, " ")
			want := to[name]
			if !allowed[method] {
				want = from
			}
			if panicked == allowed[method] || s.state != want {
				t.Errorf("%s from %s: refused %v, then %s", name, stateNames[from], panicked,
					stateNames[s.state])
			}
			if s.client.Closing != (s.state == closing && from != closing) {
				t.Errorf("%s from %s: CLIENT LIST shows that it closes: %v", name, stateNames[from],
					s.client.Closing)
			}
		}
	}
}

func panics(fn func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	fn()
	return false
}

// TestStateTests checks each predicate of a state for each state.
func TestStateTests(t *testing.T) {
	for st := range states {
		s := &session{state: st, readable: true}
		name := stateNames[st]
		if got, want := s.waiting(), strings.HasPrefix(name, "for") || st == released; got != want {
			t.Errorf("%s waits: %v", name, got)
		}
		if got, want := s.mayRun(), st == serving; got != want {
			t.Errorf("%s may run commands: %v", name, got)
		}
		if got, want := s.canGoOn(), st == serving || st == lingering; got != want {
			t.Errorf("%s can go on: %v", name, got)
		}
		if got, want := s.hears(), s.waiting() || st == serving || st == halted; got != want {
			t.Errorf("%s hears: %v", name, got)
		}
		if got, want := s.takes(), st != condemned && st != closed; got != want {
			t.Errorf("%s takes: %v", name, got)
		}
		if s.stalled = true; s.mayRun() {
			t.Errorf("%s runs commands although its client reads too little", name)
		}
	}
}

// TestStateHasOneHome: only state.go writes a session's state.
func TestStateHasOneHome(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok {
				return true
			}
			for _, to := range assign.Lhs {
				if sel, ok := to.(*ast.SelectorExpr); ok && sel.Sel.Name == "state" {
					if seen++; f.Name() != "state.go" {
						t.Errorf("%s writes a state", fset.Position(to.Pos()))
					}
				}
			}
			return true
		})
	}
	if seen != 1 {
		t.Errorf("%d places write a state, not one", seen)
	}
}
