package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// longHeat runs for about a second.
func longHeat(steps int) []string {
	return []string{"-np", "3", filepath.Join(bin, "heat"), "-n", "64", "-steps", fmt.Sprint(steps)}
}

// TestNativeDamagedImages damages images of whole processes.
func TestNativeDamagedImages(t *testing.T) {
	h := nativeHouse(t)
	schema := h.stopped("-cr=native", longHeat(20_000))
	other := h.stopped("-cr=native", longHeat(30_000))
	h.damage(t, schema, other)
}

// TestNativeDamagedBase damages what an incremental image builds on.
func TestNativeDamagedBase(t *testing.T) {
	h := nativeHouse(t)
	if !incrementals(t) {
		t.Skip("this kernel does not tell which pages have changed")
	}
	r, dir := h.stage(&scene{name: "ring", np: 3, flags: []string{"-ckpt-full-every", "4"}})
	r.checkpoint()
	r.checkpoint()
	schema := r.checkpoint()
	r.kill()
	h.signal(dir, "go")
	bases := readSchema(t, schema).Bases()
	if len(bases) == 0 {
		t.Fatalf("the third snapshot is full:\n%s", r.errs)
	}
	for _, seq := range []int{1, bases[0]} {
		victim := filepath.Join(filepath.Dir(schema), "..", fmt.Sprint(seq), "rank-00001.img")
		whole, err := os.ReadFile(victim)
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{"truncated": whole[:len(whole)/2], "missing": nil} {
			h.store(victim, content)
			if _, errs, code := h.gorun("restart", schema); code == 0 || !strings.Contains(errs, filepath.Join(fmt.Sprint(seq), "rank-00001.img")) {
				t.Errorf("base %d %s: exit %d\n%s", seq, name, code, errs)
			}
		}
		h.store(victim, whole)
	}
	digest(t, h.must("restart", schema))
}

// mount mounts a small file system for snapshots.
func (h *house) mount(options string, flags uintptr) string {
	h.t.Helper()
	dir := h.folder("small")
	options += fmt.Sprintf(",mode=0700,uid=%d,gid=%d", nobody, nobody)
	if err := syscall.Mount("gorun-test", dir, "tmpfs", flags, options); err != nil {
		if os.Getenv("CI") == "true" {
			h.t.Fatalf("mounting a small tmpfs: %v", err)
		}
		h.t.Skipf("mounting a small tmpfs: %v", err)
	}
	h.t.Cleanup(func() { syscall.Unmount(dir, 0) })
	return dir
}

// TestNativeNoRoom stores where there is no room, or none for all: it is said
// why, the ranks go on, and nothing is left of the attempt.
func TestNativeNoRoom(t *testing.T) {
	for _, c := range []struct {
		name, options string
		flags         uintptr
		words         string
	}{
		{"full", "size=16k", 0, "no space left"},
		{"full half-way", "size=24m", 0, "no space left"},
		{"read-only", "size=16k", syscall.MS_RDONLY, "read-only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := nativeHouse(t)
			dir := h.mount(c.options, c.flags)
			r, signals := h.stage(&scene{name: "heavy", np: 4, flags: []string{"-ckpt-dir", dir}})
			r.refuses(4, c.words)
			r.refuses(4, c.words) // and again: nothing of the first attempt stands in the way
			h.eventually("left behind", func() string {
				left, _ := filepath.Glob(filepath.Join(dir, "*", "[0-9]*", "*"))
				return strings.Join(left, " ")
			})
			h.signal(signals, "go")
			r.ended()
		})
	}
}

// TestNativeProgram replaces and removes the program between a snapshot and its
// restart: the one that the image is of is kept beside it.
func TestNativeProgram(t *testing.T) {
	h := nativeHouse(t)
	program := filepath.Join(h.folder("programs"), "subject")
	text, err := os.ReadFile(filepath.Join(bin, "subject"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := h.folder("stage")
	first := h.nativeRun(2, nil, program, "-dir", dir, "asleep")
	first.inPlace(2)
	schema := first.checkpoint()
	first.kill()
	h.signal(dir, "go")
	for name, change := range map[string]func() error{
		"removed":  func() error { return os.Remove(program) },
		"replaced": func() error { return os.WriteFile(program, []byte("#!/bin/sh\nexit 1\n"), 0o755) },
	} {
		os.Remove(program)
		if err := os.WriteFile(program, text, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if out, errs, code := h.gorun("restart", schema); code != 0 || digest(t, out) == "" {
			t.Errorf("%s: exit %d\n%s", name, code, errs)
		}
	}
	kept, _ := filepath.Glob(filepath.Join(h.ckpt, "*", "programs", "*"))
	if len(kept) != 1 {
		t.Fatalf("kept programs: %v", kept)
	}
	if err := os.WriteFile(kept[0], text[:len(text)/2], 0o700); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := h.gorun("restart", schema); code == 0 || !strings.Contains(errs, "program") {
		t.Errorf("with a damaged program: exit %d\n%s", code, errs)
	}
}

// TestNativeMoved restarts from a folder of snapshots that was moved.
func TestNativeMoved(t *testing.T) {
	h := nativeHouse(t)
	r, dir := h.stage(&scene{name: "asleep", np: 2})
	schema := r.checkpoint()
	r.kill()
	h.signal(dir, "go")
	job := filepath.Dir(filepath.Dir(schema))
	moved := filepath.Join(h.folder("elsewhere"), filepath.Base(job))
	if err := os.Rename(job, moved); err != nil {
		t.Fatal(err)
	}
	digest(t, h.must("restart", filepath.Join(moved, filepath.Base(filepath.Dir(schema)))))
}
