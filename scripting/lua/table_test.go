package lua

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	_ "keyp/internal/testkit/setup"
)

// drawKey draws a key for a table. Some keys are drawn often.
func drawKey(t *rapid.T, L *State, objects []Value) Value {
	switch rapid.IntRange(0, 7).Draw(t, "kind") {
	case 0, 1, 2:
		return Number(float64(rapid.IntRange(-2, 40).Draw(t, "int")))
	case 3:
		return Number(rapid.SampledFrom([]float64{0.5, -0.5, math.Inf(1), 1 << 31, 1 << 53, 1e300,
			-1 << 40, 2.5}).Draw(t, "float"))
	case 4, 5:
		return L.String(fmt.Sprintf("key%d", rapid.IntRange(0, 40).Draw(t, "string")))
	case 6:
		return Bool(rapid.Bool().Draw(t, "bool"))
	}
	return rapid.SampledFrom(objects).Draw(t, "object")
}

// modelKey returns a key as a string for Go's maps.
func modelKey(v Value) string {
	if s, ok := v.AsString(); ok {
		return "string " + s
	}
	return fmt.Sprint(v.Kind(), v.ref, v.bits)
}

// TestTableIsAMap compares tables with a map: Get returns the value that Set stored, and Len
// returns a border. next visits each key once, even if keys are removed meanwhile.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		L := NewState()
		table := L.NewTable(rapid.IntRange(0, 8).Draw(t, "elements"),
			rapid.IntRange(0, 8).Draw(t, "others"))
		objects := []Value{L.NewTable(0, 0).Value(), L.NewTable(0, 0).Value(), LightUserdata(0),
			LightUserdata(7)}
		model := map[string]Value{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			key := drawKey(t, L, objects)
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				table.Set(L, key, Nil)
				delete(model, modelKey(key))
			case 2:
				remove := rapid.IntRange(0, 3).Draw(t, "remove")
				checkNext(t, L, table, model, remove)
			default:
				v := Number(float64(rapid.IntRange(0, 1000).Draw(t, "value")))
				table.Set(L, key, v)
				model[modelKey(key)] = v
			}
			key = drawKey(t, L, objects)
			if got, want := table.Get(key), model[modelKey(key)]; got != want {
				t.Fatalf("%v is %v and should be %v", key, got, want)
			}
			n := table.Len()
			if n > 0 && table.GetInt(n).IsNil() || !table.GetInt(n+1).IsNil() {
				t.Fatalf("%d is no border", n)
			}
		}
		checkNext(t, L, table, model, 0)
	})
}

// checkNext walks a table and removes every remove-th key on the way. With 0 it removes none.
func checkNext(t *rapid.T, L *State, table *Table, model map[string]Value, remove int) {
	seen := map[string]bool{}
	left := len(model)
	for key := Nil; ; {
		next, value, ok := table.Next(key)
		if !ok {
			t.Fatalf("next lost its key")
		}
		if next.IsNil() {
			break
		}
		k := modelKey(next)
		if seen[k] || model[k] != value {
			t.Fatalf("next gives %s = %v, seen %v", k, value, seen[k])
		}
		seen[k] = true
		left--
		if remove > 0 && len(seen)%remove == 0 {
			table.Set(L, next, Nil)
			delete(model, k)
		}
		key = next
	}
	if left != 0 {
		t.Fatalf("next has left out %d keys", left)
	}
}

// TestReadonlyTables: no kind of write changes a readonly table.
func TestReadonlyTables(t *testing.T) {
	for _, write := range []string{
		"t.x = 1", "t.y = 1", "t[1] = 2", "rawset(t, 'x', 2)", "table.insert(t, 1)",
		"table.insert(t, 1, 1)", "table.remove(t)",
		"table.sort(t)", "setmetatable(t, {})", "t.f = nil",
		"local u = setmetatable({}, {__newindex = t}) u.x = 1",
		"for k in pairs(t) do t[k] = nil end", "function t.g() end", "t[1], t[2] = t[2], t[1]",
	} {
		L := newTestState(t)
		table := L.NewTable(0, 0)
		for i := range 3 {
			table.SetInt(L, i+1, Number(float64(3-i)))
		}
		table.SetString(L, "f", True)
		table.SetReadonly(true)
		g := L.Globals()
		g.SetString(L, "t", table.Value())
		_, e := evaluate(t, L, write)
		if e == nil || e.Value.AsTable() != nil || len(e.Error()) < len(errReadonly) ||
			e.Error()[len(e.Error())-len(errReadonly):] != errReadonly {
			t.Errorf("%s: %v", write, e)
		}
		if table.Len() != 3 || table.GetInt(1) != Number(3) || table.GetString("f") != True ||
			table.Metatable() != nil {
			t.Errorf("%s has changed a readonly table", write)
		}
	}
}

// TestKilledWhileSized: a kill ends the resizing of a table, which takes long if the keys collide.
// The table stays unchanged, because it may belong to a library and outlive the call.
func TestKilledWhileSized(t *testing.T) {
	L := newTestState(t)
	table := L.NewTable(0, 0)
	const keys = 1000
	for i := range keys {
		table.Set(L, Number(float64(i)+0.5), Number(float64(i)))
	}
	L.Kill(errors.New("enough"))
	if L.try(handler{}, func() { table.resize(L, 0, 4*keys) }) {
		t.Error("a killed state sizes a table")
	}
	L.Reset()
	for i := range keys {
		if got := table.Get(Number(float64(i) + 0.5)); !got.RawEqual(Number(float64(i))) {
			t.Fatalf("afterwards key %d has %v", i, got)
		}
	}
	table.Set(L, True, True)
	if n := count(table); n != keys+1 {
		t.Errorf("%d keys", n)
	}
}

func count(t *Table) (n int) {
	for key, _, _ := t.Next(Nil); !key.IsNil(); key, _, _ = t.Next(key) {
		n++
	}
	return n
}
