package lua

import "testing"

// BenchmarkPrograms runs loops of about three million steps, for a comparison with redis-server's
// EVAL.
func BenchmarkPrograms(b *testing.B) {
	for name, source := range map[string]string{
		"add":     "local s=0 for i=1,3000000 do s=s+i end return s",
		"call":    "local function f(a) return a+1 end local s=0 for i=1,3000000 do s=f(s) end return s",
		"fib":     "local function f(n) if n<2 then return n end return f(n-1)+f(n-2) end return f(27)",
		"array":   "local t={} for i=1,1000 do t[i]=i end local s=0 for j=1,3000 do for i=1,1000 do s=s+t[i] end end return s",
		"field":   "local t={x=1,y=2} for i=1,3000000 do t.x=t.x+t.y end return t.x",
		"set":     "local t={} for i=1,1000000 do t[i]=i end return #t",
		"keys":    "local t={} for i=1,200000 do t['k'..i]=i end local n=0 for k,v in pairs(t) do n=n+v end return n",
		"concat":  "local s='' for i=1,20000 do s=s..'x' end return #s",
		"builtin": "local f=math.floor local s=0 for i=1,3000000 do s=s+f(i/2) end return s",
		"closure": "local s=0 for i=1,500000 do local f=function() return i end s=s+f() end return s",
		"global":  "local s=0 for i=1,1000000 do s=s+math.max(i,5) end return s",
		"sort":    "local t={} local x=1 for i=1,100000 do x=(x*16807)%2147483647 t[i]=x end table.sort(t) return t[1]",
		"while":   "local i=0 while i<3000000 do i=i+1 end return i",
	} {
		b.Run(name, func(b *testing.B) {
			p, err := Compile(source, CompileOptions{Name: "@user_script"})
			if err != nil {
				b.Fatal(err)
			}
			L := newTestState(b)
			b.ReportAllocs()
			for b.Loop() {
				if _, e := L.PCall(L.Load(p, nil), nil, nil); e != nil {
					b.Fatal(e)
				}
			}
		})
	}
}
