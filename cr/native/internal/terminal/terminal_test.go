package terminal

import (
	"reflect"
	"testing"

	"golang.org/x/sys/unix"
)

// open opens both sides of one.
func open(t *testing.T) (master, peer int) {
	t.Helper()
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { unix.Close(master) })
	if peer, err = Peer(master); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(peer) })
	return master, peer
}

// TestContent: what waits is taken, is put into another terminal, and is the same when it is taken from there.
func TestContent(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Settings)
		typed  string
		want   Content
	}{
		"nothing":             {typed: ""},
		"lines":               {typed: "one\ntwo\r", want: Content{Lines: [][]byte{[]byte("one\n"), []byte("two\n")}}},
		"beginning of a line": {typed: "one\nhal", want: Content{Lines: [][]byte{[]byte("one\n")}, Typed: []byte("hal")}},
		"end":                 {typed: "one\x04\x04", want: Content{Lines: [][]byte{[]byte("one"), {}}}},
		"own end of a line": {change: func(s *Settings) { s.Cc[unix.VEOL] = ';' }, typed: "a;b\n;",
			want: Content{Lines: [][]byte{[]byte("a;"), []byte("b\n"), []byte(";")}}},
		"no lines": {change: func(s *Settings) { s.Lflag &^= unix.ICANON }, typed: "a\x04b\nc", want: Content{Typed: []byte("a\x04b\nc")}},
		"what is special": {change: func(s *Settings) { s.Lflag, s.Iflag = 0, 0 }, typed: "\x03\x11\x13\x7f\xff\x00\r",
			want: Content{Typed: []byte("\x03\x11\x13\x7f\xff\x00\r")}},
	} {
		t.Run(name, func(t *testing.T) {
			master, peer := open(t)
			set, err := Get(master)
			if err != nil {
				t.Fatal(err)
			}
			set.Lflag &^= unix.ECHO
			if c.change != nil {
				c.change(set)
			}
			if err := Set(peer, set); err != nil {
				t.Fatal(err)
			}
			if err := put(master, []byte(c.typed)); err != nil {
				t.Fatal(err)
			}
			if err := put(peer, []byte("out\n")); err != nil {
				t.Fatal(err)
			}
			c.want.Output = []byte("out\r\n")
			for range 3 {
				got, err := Take(master, peer, set)
				if err != nil || !reflect.DeepEqual(got, c.want) {
					t.Fatalf("%q, %v", got, err)
				}
				master, peer = open(t)
				again, err := FromBytes(Bytes(set))
				if err != nil {
					t.Fatal(err)
				}
				if err := Put(master, peer, again, got); err != nil {
					t.Fatal(err)
				}
				if now, err := Get(master); err != nil || !reflect.DeepEqual(now, set) {
					t.Errorf("%+v, %v", now, err)
				}
			}
		})
	}
}
