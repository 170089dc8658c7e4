package await

import (
	"net"
	"testing"
	"time"

	_ "keyp/internal/testkit/setup"
)

func TestUntil(t *testing.T) {
	n := 0
	Until(t, "three looks", func() bool { n++; return n == 3 })
	if n != 3 {
		t.Errorf("asked %d times", n)
	}
}

func TestFor(t *testing.T) {
	c := make(chan int, 1)
	c <- 7
	if got := For(t, "a number", c); got != 7 {
		t.Errorf("got %d", got)
	}
	close(c)
	if got, ok := Next(t, "the end", c); got != 0 || ok {
		t.Errorf("got %d, %v of a closed channel", got, ok)
	}
}

// TestConn: a read fails after the time Bound. A test that expects no message calls Listen first,
// which sets a shorter limit for reads.
func TestConn(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c, err := Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	other, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	one := make([]byte, 1)
	if err := c.Listen(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(one); err == nil || !err.(net.Error).Timeout() {
		t.Fatalf("nothing came, and Read gave %v", err)
	}
	c.Patient()
	go func() {
		Pass(20 * time.Millisecond)
		_, _ = other.Write([]byte("x"))
	}()
	if _, err := c.Read(one); err != nil || one[0] != 'x' {
		t.Fatalf("read %q, %v", one, err)
	}
}
