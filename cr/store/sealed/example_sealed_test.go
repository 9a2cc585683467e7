package sealed_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/sealed"
)

// A piece is sealed, and read with the same key file.
func ExampleWrap() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	key := filepath.Join(dir, "key")
	if err := sealed.NewKey(key); err != nil {
		fmt.Println(err)
		return
	}
	st, err := sealed.Wrap(store.OpenDir(filepath.Join(dir, "images")), key)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := st.Begin(ctx, "job/1"); err != nil {
		fmt.Println(err)
		return
	}
	w, err := st.Create(ctx, "job/1", "rank-00000.img", store.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.WriteAt([]byte("state"), 0)
	fmt.Println(st.Kind(), w.Commit(5))
	r, err := st.Open(ctx, "job/1", "rank-00000.img")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	p := make([]byte, 3)
	_, err = r.ReadAt(p, 2)
	fmt.Println(string(p), err)
	// Output:
	// dir+sealed <nil>
	// ate <nil>
}

// A key file is made once and is read by nobody else.
func ExampleNewKey() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	key := filepath.Join(dir, "key")
	fmt.Println(sealed.NewKey(key), sealed.CheckKey(key))
	os.Chmod(key, 0o644)
	fmt.Println(sealed.CheckKey(key) != nil)
	// Output:
	// <nil> <nil>
	// true
}

func ExampleFingerprint() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, make([]byte, sealed.KeySize), 0o600); err != nil { // no good key
		fmt.Println(err)
		return
	}
	fmt.Println(sealed.Fingerprint(key))
	// Output: 72a9e1beeb94d3a5 <nil>
}

func ExampleCheckKey() { ExampleNewKey() }

// The place of sealed pieces names the key file, so that a restart finds it.
func ExamplePlace() {
	kind, folder := sealed.Place("/home/me/key", "s3", "s3://snapshots/cluster")
	fmt.Println(kind, folder)
	fmt.Println(sealed.Split(kind, folder))
	// Output:
	// s3+sealed /home/me/key:s3://snapshots/cluster
	// /home/me/key s3 s3://snapshots/cluster true
}

func ExampleSplit() { ExamplePlace() }
