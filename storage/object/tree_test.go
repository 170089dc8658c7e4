package object

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type treeEntry struct {
	key uint64
	pos uint32
}

// TestTreeModel: the tree behaves like a sorted slice.
func TestTreeModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var (
			tr    tree
			model []treeEntry
			pos   uint32
		)
		seek := func(p *path, e treeEntry) int {
			tr.seek(p, func(key uint64, pos uint32) bool {
				return key < e.key || key == e.key && pos < e.pos
			})
			return p.rank()
		}
		// rank checks that the tree finds e at its index in the model.
		rank := func(rt *rapid.T, p *path, e treeEntry) int {
			i, _ := slices.BinarySearchFunc(model, e, func(a, b treeEntry) int {
				return 2*cmpUint(a.key, b.key) + cmpUint(uint64(a.pos), uint64(b.pos))
			})
			if got := seek(p, e); got != i {
				rt.Fatalf("rank %d, model %d", got, i)
			}
			return i
		}
		rt.Repeat(map[string]func(*rapid.T){
			"insert": func(rt *rapid.T) {
				from := rapid.SampledFrom([]uint64{0, 7 << 32, 1<<32 - 750}).Draw(rt, "begin") +
					rapid.Uint64Range(500, 1000).Draw(rt, "key")
				by := rapid.SampledFrom([]int64{-1, 0, 1, 7, 1 << 40}).Draw(rt, "by")
				for range rapid.IntRange(1, 500).Draw(rt, "n") {
					pos++
					e := treeEntry{from, pos}
					var p path
					i := rank(rt, &p, e)
					tr.insert(&p, e.key, e.pos)
					model = slices.Insert(model, i, e)
					from = uint64(int64(from) + by)
				}
			},
			"remove": func(rt *rapid.T) {
				if len(model) == 0 {
					return
				}
				at := rapid.IntRange(0, len(model)-1).Draw(rt, "at")
				by := rapid.SampledFrom([]int{0, 1, 5}).Draw(rt, "by")
				for range rapid.IntRange(1, 700).Draw(rt, "n") {
					if at >= len(model) {
						return
					}
					var p path
					if rapid.Bool().Draw(rt, "by rank") {
						tr.seekRank(&p, at)
					} else {
						rank(rt, &p, model[at])
					}
					tr.remove(&p)
					model = slices.Delete(model, at, at+1)
					at += by
				}
			},
			"remove range": func(rt *rapid.T) {
				from := rapid.IntRange(0, len(model)).Draw(rt, "from")
				to := min(len(model), from+rapid.OneOf(rapid.IntRange(0, 5),
					rapid.IntRange(0, 3000)).Draw(rt, "n"))
				tr.removeRange(from, to)
				model = slices.Delete(model, from, to)
			},
			"rename": func(rt *rapid.T) {
				// The last entry of a key may become greater without a change of its rank.
				if len(model) == 0 {
					return
				}
				at := rapid.IntRange(0, len(model)-1).Draw(rt, "at")
				if at+1 < len(model) && model[at+1].key == model[at].key {
					return
				}
				var p path
				rank(rt, &p, model[at])
				pos++
				p.setPos(pos)
				model[at].pos = pos
			},
			"": func(rt *rapid.T) {
				checkTree(rt, &tr)
				walkTree(rt, &tr, model)
			},
		})
	})
}

func cmpUint(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// walkTree compares both directions with the model.
func walkTree(rt *rapid.T, tr *tree, model []treeEntry) {
	if tr.n != len(model) {
		rt.Fatalf("%d entries, model %d", tr.n, len(model))
	}
	if len(model) == 0 {
		return
	}
	var got []treeEntry
	var p path
	tr.seekRank(&p, 0)
	for more := true; more; more = p.next() {
		key, pos, _ := p.entry()
		got = append(got, treeEntry{key, pos})
	}
	if !slices.Equal(got, model) {
		rt.Fatal("the entries differ from the model's")
	}
	tr.seekRank(&p, len(model)-1)
	for i := len(model) - 1; i >= 0; i-- {
		if key, pos, _ := p.entry(); (treeEntry{key, pos}) != model[i] {
			rt.Fatalf("entry %d differs backwards", i)
		}
		if p.prev() != (i > 0) {
			rt.Fatalf("backwards the walk ends at %d", i)
		}
	}
}

// checkTree checks the invariants of nodes that the head comment states.
func checkTree(rt rapid.TB, tr *tree) {
	nodes, branches, wide, depth := 0, 0, 0, -1
	var visit func(nd *node, level int)
	visit = func(nd *node, level int) {
		nodes++
		if nd.n == 0 && nd != tr.root {
			rt.Fatal("an empty node")
		}
		if nd.upper != nil {
			wide++
		}
		if nd.kids == nil {
			if depth >= 0 && depth != level {
				rt.Fatal("leaves on two levels")
			}
			if nd.upper != nil && nd.key(0)>>32 == nd.key(int(nd.n)-1)>>32 {
				rt.Fatal("a wide leaf has keys of one upper half")
			}
			depth = level
			return
		}
		branches++
		for i := range int(nd.n) {
			c := nd.kids.child[i]
			if nd.key(i) != c.key(0) || nd.pos[i] != c.pos[0] || nd.kids.count[i] != c.total() {
				rt.Fatalf("child %d is known as (%d, %d) %d", i, nd.key(i), nd.pos[i],
					nd.kids.count[i])
			}
			visit(c, level+1)
		}
	}
	if tr.root != nil {
		visit(tr.root, 0)
		if int(tr.root.total()) != tr.n {
			rt.Fatalf("%d entries, counted as %d", tr.root.total(), tr.n)
		}
	}
	if nodes != tr.nodes || branches != tr.branches || wide != tr.wide {
		rt.Fatalf("%d nodes counted as %d, %d wide ones as %d", nodes, tr.nodes, wide, tr.wide)
	}
}

// TestTreeFill: entries added in order at one end leave full nodes.
func TestTreeFill(t *testing.T) {
	for _, by := range []int{1, -1} {
		var tr tree
		const n = 20000
		for i := range n {
			key := uint64(n + i*by)
			var p path
			tr.seek(&p, func(k uint64, _ uint32) bool { return k < key })
			tr.insert(&p, key, 0)
		}
		if tr.nodes > n/nodeCap*11/10 {
			t.Errorf("%d nodes for %d entries", tr.nodes, n)
		}
	}
}

// TestTreeFillAnyOrder: entries added in any order leave nodes four fifths full. If keys share
// their upper half, no node is wide.
func TestTreeFillAnyOrder(t *testing.T) {
	var tr tree
	const n = 100_000
	for i := range n {
		key := 5<<32 + uint64(uint32(i)*2654435761)
		var p path
		tr.seek(&p, func(k uint64, _ uint32) bool { return k < key })
		tr.insert(&p, key, 0)
	}
	checkTree(t, &tr)
	if places := (tr.nodes - tr.branches) * nodeCap; n*5 < places*4 || tr.wide != 0 {
		t.Errorf("%d places for %d entries, %d wide nodes", places, n, tr.wide)
	}
}

// TestTreeShrink: a tree that shrinks frees its nodes.
func TestTreeShrink(t *testing.T) {
	var tr tree
	const n, left = 20000, 1000
	for i := range n {
		var p path
		tr.seek(&p, func(uint64, uint32) bool { return true })
		tr.insert(&p, uint64(i), 0)
	}
	for tr.n > left {
		var p path
		tr.seekRank(&p, tr.n*7919%104729%tr.n)
		tr.remove(&p)
	}
	checkTree(t, &tr)
	if tr.nodes > left/nodeCap*6 {
		t.Errorf("%d nodes for %d entries", tr.nodes, left)
	}
}
