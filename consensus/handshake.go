package consensus

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// Channel is the purpose of a connection.
type Channel uint8

// The connections that a member has to another one.
const (
	Votes   Channel = 1 + iota // and heartbeats: short, and never late
	Entries                    // and their answers
	Snapshots
	Calls // a request and its answer, after which the connection ends
)

// Member is a process of a cluster. Both numbers are random and never used again. A stranger has 0
// for both: it is in no cluster, and may only make calls, to whichever server is at an address.
type Member struct {
	Cluster, Node uint64
}

// Why a handshake ends without success.
var (
	ErrSecret = errors.New("consensus: the two sides do not have the same secret of the cluster")
	ErrMember = errors.New(
		"consensus: the other side is, or means, another member or another cluster")
	ErrVersion = errors.New("consensus: the other side speaks another version of the protocol")
)

const (
	protocolVersion = 1
	nonceSize       = 32
	helloSize       = 2 + 3*8 + nonceSize
	answerSize      = 2*8 + nonceSize
	// handshakeLimit bounds a frame from a side that has proved nothing yet.
	handshakeLimit = 128

	callerSigns = "keyp: who calls\n"
	calledSigns = "keyp: who is called\n"
)

// Handshake
//
//	caller                                              called
//	hello   version 1, channel 1, cluster 8, own 8, called 8, nonce 32 ──►
//	        ◄── answer   cluster 8, own 8, nonce 32
//	proof   HMAC-SHA-256 by the secret over callerSigns, hello, answer ──►
//	        ◄── proof    likewise over calledSigns
//
// The called side proves nothing before the caller has, so a caller gets nothing from which it
// could guess the secret. A member that is called by one with another version answers with its own
// version alone. No version accepts that as an answer, so both sides can say why they do not talk.
//
// Both nonces are signed, so a recorded handshake is of no use. The two sides sign with different
// labels, so neither can send back the proof of the other. Without a secret both sides send the
// same messages, which then prove nothing.

// Call does the caller's side of a handshake: it introduces me to the called member, to send on a
// channel, and checks that member's proof. It reads nonces from random.
func Call(r *bufio.Reader, w io.Writer, me Member, to uint64, channel Channel, secret []byte,
	random io.Reader) error {
	hello := []byte{protocolVersion, byte(channel)}
	for _, v := range [...]uint64{me.Cluster, me.Node, to} {
		hello = le.AppendUint64(hello, v)
	}
	hello, err := appendNonce(hello, random)
	if err != nil {
		return err
	}
	if err := writeFrame(w, KindHello, hello); err != nil {
		return err
	}
	answer, err := readBody(r, KindAnswer, answerSize)
	if err != nil {
		return err
	}
	if me != (Member{}) && (le.Uint64(answer) != me.Cluster || le.Uint64(answer[8:]) != to) {
		return ErrMember
	}
	if err := writeFrame(w, KindProof, sign(secret, callerSigns, hello, answer)); err != nil {
		return err
	}
	proof, err := readBody(r, KindProof, sha256.Size)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		// The other side did not accept the proof.
		return fmt.Errorf("%w: %w", ErrSecret, err)
	}
	if err != nil {
		return err
	}
	if !hmac.Equal(proof, sign(secret, calledSigns, hello, answer)) {
		return ErrSecret
	}
	return nil
}

// Answer does the called side of a handshake (see Call). It returns the number of the caller, and
// the channel of the connection.
func Answer(r *bufio.Reader, w io.Writer, me Member, secret []byte,
	random io.Reader) (from uint64, channel Channel, err error) {
	hello, err := readBody(r, KindHello, helloSize)
	if err == nil && hello[0] != protocolVersion {
		err = otherVersion(hello[0])
	}
	if errors.Is(err, ErrVersion) {
		return 0, 0, errors.Join(err, writeFrame(w, KindAnswer, []byte{protocolVersion}))
	}
	if err != nil {
		return 0, 0, err
	}
	channel, from = Channel(hello[1]), le.Uint64(hello[10:])
	switch {
	case channel < Votes || channel > Calls:
		return 0, 0, ErrVersion
	case channel == Calls && bytes.Equal(hello[2:2+3*8], make([]byte, 3*8)): // a stranger
	case le.Uint64(hello[2:]) != me.Cluster || le.Uint64(hello[18:]) != me.Node || from == me.Node:
		return 0, 0, ErrMember
	}
	answer, err := appendNonce(le.AppendUint64(le.AppendUint64(nil, me.Cluster), me.Node), random)
	if err != nil {
		return 0, 0, err
	}
	if err := writeFrame(w, KindAnswer, answer); err != nil {
		return 0, 0, err
	}
	proof, err := readBody(r, KindProof, sha256.Size)
	if err != nil {
		return 0, 0, err
	}
	if !hmac.Equal(proof, sign(secret, callerSigns, hello, answer)) {
		return 0, 0, ErrSecret
	}
	if err := writeFrame(w, KindProof, sign(secret, calledSigns, hello, answer)); err != nil {
		return 0, 0, err
	}
	return from, channel, nil
}

func appendNonce(dst []byte, random io.Reader) ([]byte, error) {
	var nonce [nonceSize]byte
	if _, err := io.ReadFull(random, nonce[:]); err != nil {
		return nil, fmt.Errorf("consensus: random numbers: %w", err)
	}
	return append(dst, nonce[:]...), nil
}

// sign returns the proof; all parts but the label have fixed lengths.
func sign(secret []byte, label string, hello, answer []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	io.WriteString(mac, label) // writing to a hash does not fail
	mac.Write(hello)
	mac.Write(answer)
	return mac.Sum(nil)
}

func writeFrame(w io.Writer, kind Kind, body []byte) error {
	_, err := w.Write(AppendFrame(nil, kind, 0, body))
	return err
}

func otherVersion(version byte) error {
	return fmt.Errorf("%w: %d, and this one %d", ErrVersion, version, protocolVersion)
}

// readBody reads a frame of the handshake.
func readBody(r *bufio.Reader, kind Kind, size int) ([]byte, error) {
	f, err := ReadFrame(r, handshakeLimit)
	if err != nil {
		return nil, err
	}
	if kind == KindAnswer && f.Kind == kind && len(f.Body) == 1 {
		return nil, otherVersion(f.Body[0])
	}
	if f.Kind != kind || len(f.Body) != size {
		return nil, ErrVersion
	}
	return f.Body, nil
}

// MayBePlain reports whether a connection between two addresses needs neither a secret nor TLS:
// only processes of this machine are at both of them.
func MayBePlain(local, remote net.Addr) bool {
	return onThisMachine(local) && onThisMachine(remote)
}

func onThisMachine(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
