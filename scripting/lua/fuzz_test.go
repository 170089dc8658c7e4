package lua

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// FuzzProgram compiles and runs any text. The only outcome besides success is an error, in limited
// time and memory.
func FuzzProgram(f *testing.F) {
	for _, e := range examples(f) {
		f.Add(e.source)
	}
	for _, source := range greedy {
		f.Add(source)
	}
	for i := range uint64(50) {
		g := &generator{Rand: rand.New(rand.NewPCG(1, i))}
		f.Add(g.program())
	}
	f.Fuzz(func(t *testing.T, source string) {
		const memory = 8 << 20
		p, err := Compile(source, CompileOptions{Name: "@user_script", Memory: memory})
		if err != nil {
			return
		}
		L := newTestState(t)
		L.SetMemoryLimit(memory)
		timer := time.AfterFunc(100*time.Millisecond, func() { L.Kill(errors.New("killed")) })
		_, e := L.PCall(L.Load(p, nil), nil, nil)
		timer.Stop()
		L.Reset()
		if e != nil && e.Killed != nil {
			return
		}
		if result, e := evaluate(t, L, "return 1 + 1"); e != nil || result != "2" {
			t.Fatalf("the state is broken afterwards: %s, %v", result, e)
		}
	})
}
