package sealed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/testing/storetest"
)

// keyFile makes a key file.
func keyFile(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := NewKey(file); err != nil {
		t.Fatal(err)
	}
	return file
}

// sealed makes a store in a folder.
func sealed(t testing.TB, dir, key string) *Store {
	t.Helper()
	s, err := Wrap(store.OpenDir(dir), key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	key := keyFile(t)
	storetest.Run(t, func(t testing.TB) storetest.Subject {
		dir := t.TempDir()
		return storetest.Subject{Store: sealed(t, dir, key), Readers: []store.Reading{sealed(t, dir, key)}}
	})
}

// TestRanges writes ranges in any order and reads others.
func TestRanges(t *testing.T) {
	s := sealed(t, t.TempDir(), keyFile(t))
	if err := s.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		data := storetest.Data(rapid.IntRange(1, 20*blockSize).Draw(rt, "size"), 3)
		w, err := s.Create(t.Context(), "s", "p", store.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		var cuts []int
		for at := 0; at < len(data); at += rapid.SampledFrom([]int{1, 4096, 12345, blockSize, 3 * blockSize}).Draw(rt, "step") {
			cuts = append(cuts, at)
			if len(cuts) > 200 {
				break
			}
		}
		ends := append(cuts[1:len(cuts):len(cuts)], len(data))
		for _, i := range rapid.Permutation(indices(len(cuts))).Draw(rt, "order") {
			if _, err := w.WriteAt(data[cuts[i]:ends[i]], int64(cuts[i])); err != nil {
				rt.Fatal(err)
			}
		}
		if err := w.Commit(int64(len(data))); err != nil {
			rt.Fatal(err)
		}
		r, err := s.Open(t.Context(), "s", "p")
		if err != nil {
			rt.Fatal(err)
		}
		defer r.Close()
		for range 5 {
			from := rapid.IntRange(0, len(data)-1).Draw(rt, "from")
			p := make([]byte, rapid.IntRange(0, len(data)-from).Draw(rt, "n"))
			if n, err := r.ReadAt(p, int64(from)); err != nil && err != io.EOF || n != len(p) || !bytes.Equal(p, data[from:from+n]) {
				rt.Fatalf("%d of %d bytes at %d: %v", n, len(p), from, err)
			}
		}
	})
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// salted is a store whose pieces have all the same salt.
type salted struct {
	*Store
	salt [saltSize]byte
}

func (s salted) Create(ctx context.Context, set, piece string, opt store.Options) (store.Writer, error) {
	return s.create(ctx, set, piece, opt, s.salt)
}

// headOfKnown is magic, size of a block, key, salt.
const headOfKnown = "676f72756e5345310001000000000000fa06475d1e2a3fcb612073616c74206f66207468697274792d74776f2062797465732c20686572650000000000000000"

// TestKnownAnswer: the bytes that the format has for a known key, salt, name and content.
func TestKnownAnswer(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := salted{sealed(t, dir, file), [saltSize]byte([]byte("a salt of thirty-two bytes, here"))}
	if err := s.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	storetest.Put(t, s, "s", "rank-00000.img", storetest.Data(70_000, 1))
	storetest.Put(t, s, "s", "empty", nil)
	for _, c := range []struct {
		name       string
		size       int
		head, body string
	}{
		{"rank-00000.img", 70_120, headOfKnown, "945c74358a40164c7f49a2f7ad8552c82e106db6dd4296b4976f4ea86fc5f413"},
		{"empty", 88, headOfKnown, "76b9c4418d1354e594919b44c2cd8da4a8bab0f196e888d075d328ac3b6a113b"},
	} {
		p, err := os.ReadFile(filepath.Join(dir, "s", c.name))
		if err != nil || len(p) != c.size {
			t.Fatalf("%d bytes, %v", len(p), err)
		}
		sum := sha256.Sum256(p[headSize:])
		if head := hex.EncodeToString(p[:headSize]); head != c.head || hex.EncodeToString(sum[:]) != c.body {
			t.Errorf("%s: head %s, SHA-256 of the rest %x", c.name, head, sum)
		}
	}
}

// piece writes one and returns its file and content.
func piece(t *testing.T, s *Store, dir string, n int) (file string, data []byte) {
	t.Helper()
	if err := s.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	data = storetest.Data(n, 5)
	storetest.Put(t, s, "s", "p", data)
	return filepath.Join(dir, "s", "p"), data
}

// TestDamage changes what is sealed in each way that matters: each is seen.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := sealed(t, dir, keyFile(t))
	file, data := piece(t, s, dir, 3*blockSize+100)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block := func(p []byte, i int) []byte { return p[headSize+i*fullSize:][:fullSize] }
	changes := map[string]func(p []byte) []byte{
		"cut by a block": func(p []byte) []byte { return append(p[:headSize+2*fullSize], p[len(p)-endSize:]...) },
		"cut":            func(p []byte) []byte { return p[:len(p)-1] },
		"cut to nothing": func(p []byte) []byte { return nil },
		"lengthened":     func(p []byte) []byte { return append(p, 0) },
		"blocks swapped": func(p []byte) []byte {
			one := bytes.Clone(block(p, 0))
			copy(block(p, 0), block(p, 1))
			copy(block(p, 1), one)
			return p
		},
	}
	for at := 0; at < len(good); at += 997 {
		changes["bit of byte "+string(rune('0'+at%10))+" "+hex.EncodeToString([]byte{byte(at >> 16), byte(at >> 8), byte(at)})] = func(p []byte) []byte { p[at] ^= 4; return p }
	}
	for name, change := range changes {
		if err := os.WriteFile(file, change(bytes.Clone(good)), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := storetest.Get(t, s, "s", "p")
		if !errors.Is(err, ErrSealed) && !errors.Is(err, ErrKey) || bytes.Equal(got, data) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := filepath.Join(dir, "s", "q") // another piece's
	if err := os.WriteFile(other, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), "s", "q"); !errors.Is(err, ErrSealed) {
		t.Errorf("a piece of another name: %v", err)
	}
}

// TestSecret: nothing of the content can be seen, and equal content does not look equal.
func TestSecret(t *testing.T) {
	dir := t.TempDir()
	s := sealed(t, dir, keyFile(t))
	if err := s.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("a secret of the program. ", 10_000))
	var seen [2][]byte
	for i := range seen {
		storetest.Put(t, s, "s", "p", text)
		var err error
		if seen[i], err = os.ReadFile(filepath.Join(dir, "s", "p")); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(seen[i], []byte("secret")) {
			t.Error("the content can be read")
		}
	}
	if bytes.Equal(seen[0][headSize:], seen[1][headSize:]) {
		t.Error("the same content is sealed alike")
	}
}

// TestTwice: a block is sealed once.
func TestTwice(t *testing.T) {
	dir := t.TempDir()
	s := sealed(t, dir, keyFile(t))
	if err := s.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	w, err := s.Create(t.Context(), "s", "p", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt(make([]byte, 2*blockSize), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt([]byte("x"), 5); err == nil {
		t.Error("a block was sealed, and then written to")
	}
	if err := w.Commit(10); err == nil {
		t.Error("a sealed block was cut")
	}
	if es, err := os.ReadDir(filepath.Join(dir, "s")); len(es) > 0 || err != nil {
		t.Errorf("left: %v, %v", es, err)
	}
}

// TestKey: a key file that is missing, or others may read, or is none, is refused by its name, and so is another one.
func TestKey(t *testing.T) {
	dir := t.TempDir()
	good := keyFile(t)
	s := sealed(t, dir, good)
	piece(t, s, dir, 10)
	if err := NewKey(good); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a key was overwritten: %v", err)
	}
	p, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, p []byte, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(file, p, 0o600), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, c := range []struct{ file, says string }{
		{filepath.Join(dir, "missing"), "not here"},
		{write("group", p, 0o640), "chmod 600"},
		{write("short", p[:31], 0o600), "31 bytes"},
		{dir, "regular"},
	} {
		if err := CheckKey(c.file); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), c.file) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.file, err)
		}
	}
	other := sealed(t, dir, keyFile(t))
	if _, err := other.Open(t.Context(), "s", "p"); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), other.key.file) {
		t.Errorf("another key: %v", err)
	} else {
		for _, k := range []*key{s.key, other.key} {
			if id, ferr := Fingerprint(k.file); ferr != nil || !strings.Contains(err.Error(), id) {
				t.Errorf("%v does not name key %q, %v", err, id, ferr)
			}
		}
	}
	if _, err := Fingerprint(dir); !errors.Is(err, ErrKey) {
		t.Errorf("the fingerprint of no key: %v", err)
	}
	plain := store.OpenDir(dir)
	storetest.Put(t, plain, "s", "plain", make([]byte, 1000))
	if _, err := s.Open(t.Context(), "s", "plain"); !errors.Is(err, ErrSealed) || !strings.Contains(err.Error(), "not sealed at all") {
		t.Errorf("what is not sealed: %v", err)
	}
}

// TestPlace: the name of a place keeps key file, kind and folder.
func TestPlace(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		key, folder := rapid.String().Draw(rt, "key"), rapid.String().Draw(rt, "folder")
		kind, name := Place(key, "s3", folder)
		if k, inner, f, ok := Split(kind, name); !ok || k != key || inner != "s3" || f != folder {
			rt.Fatalf("%q %q: %q %q %q", kind, name, k, inner, f)
		}
	})
	if _, kind, folder, ok := Split("node", "/x:y"); ok || kind != "node" || folder != "/x:y" {
		t.Error("a place that is not sealed is split")
	}
}

// bytesReader is a piece in memory.
type bytesReader struct{ *bytes.Reader }

func (bytesReader) Close() error { return nil }

// FuzzOpen opens what nobody has sealed. What opens is what was sealed.
func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, bytes.Repeat([]byte("k"), KeySize), 0o600); err != nil {
		f.Fatal(err)
	}
	s := salted{Store: sealed(f, dir, file)}
	data := storetest.Data(100, 1)
	if err := s.Begin(f.Context(), "s"); err != nil {
		f.Fatal(err)
	}
	storetest.Put(f, s, "s", "p", data)
	good, err := os.ReadFile(filepath.Join(dir, "s", "p"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:headSize+endSize])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := newReader(bytesReader{bytes.NewReader(p)}, s.key, "p")
		if err != nil {
			return
		}
		got, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
		if err == nil && (!bytes.Equal(got, data) || !bytes.Equal(p, good)) {
			t.Fatalf("%d bytes that nobody has sealed open to %q", len(p), got)
		}
	})
}

func BenchmarkSealed(b *testing.B) {
	k, err := readKey(keyFile(b))
	if err != nil {
		b.Fatal(err)
	}
	box, err := newBox(k, newHead(k, newSalt()), "p")
	if err != nil {
		b.Fatal(err)
	}
	p, out := make([]byte, 1<<20), make([]byte, 0, runBlocks*fullSize)
	b.Run("seal", func(b *testing.B) {
		b.SetBytes(int64(len(p)))
		for i := range b.N {
			out = out[:0]
			for j := range int64(runBlocks) {
				out = box.seal(out, int64(i)*runBlocks+j, p[j*blockSize:][:blockSize])
			}
		}
	})
}
