package runtimes

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"
)

// TestProcIDOffset: the field is where every thread's m holds its id, and nowhere
// else.
func TestProcIDOffset(t *testing.T) {
	tids := []int{70, 71}
	with := func(offs ...int) (ms [][]byte) {
		for _, tid := range tids {
			m := make([]byte, mStart)
			for _, off := range offs {
				binary.LittleEndian.PutUint64(m[off:], uint64(tid))
			}
			ms = append(ms, m)
		}
		return ms
	}
	if off, err := procIDOffset(with(0x48), tids); off != 0x48 || err != nil {
		t.Errorf("%#x, %v", off, err)
	}
	for _, ms := range [][][]byte{with(), with(8, 16), {with(8)[0], with(16)[1]}} {
		if off, err := procIDOffset(ms, tids); !errors.Is(err, ErrProcID) {
			t.Errorf("%#x, %v", off, err)
		}
	}
}

func TestReadProgram(t *testing.T) {
	p, err := ReadProgram("/proc/self/exe")
	if again, e := ReadProgram("/proc/self/exe"); e != nil || again != p {
		t.Errorf("it was %+v, now it is %+v: %v", p, again, e)
	}
	if err != nil || p.BuildID == "" || len(p.Sum) != 64 {
		t.Errorf("%+v, %v", p, err)
	}
	text := t.TempDir() + "/text"
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if p, err := ReadProgram(text); err == nil {
		t.Errorf("a script is %+v", p)
	}
}

// FuzzNote feeds the parser of ELF notes.
func FuzzNote(f *testing.F) {
	note := binary.LittleEndian.AppendUint32(nil, 4)
	note = binary.LittleEndian.AppendUint32(note, 2)
	note = binary.LittleEndian.AppendUint32(note, 4)
	f.Add(append(note, "Go\x00\x00id\x00\x00"...))
	f.Fuzz(func(t *testing.T, p []byte) { findNote(p, "Go\x00\x00", 4) })
}
