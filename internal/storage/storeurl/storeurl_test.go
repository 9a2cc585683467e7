package storeurl

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/s3"
	"github.com/gorun-mpi/gorun/cr/store/sealed"
)

func TestOpen(t *testing.T) {
	key := filepath.Join(t.TempDir(), "a:key")
	if err := sealed.NewKey(key); err != nil {
		t.Fatal(err)
	}
	o := Opener{
		Env: []string{"AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=y", "HOME=/nonexistent"},
		Parts: func(p Place) (store.Store, error) {
			if p.Kind != "node" {
				return nil, Unknown(p)
			}
			return store.OpenDir(p.Folder), nil
		},
	}
	for _, c := range []struct {
		place Place
		kind  string
		err   error
	}{
		{Place{"dir", "/x"}, "dir", nil},
		{Place{"dir", "/x"}.Sealed(key), "dir+sealed", nil},
		{Place{"s3", "s3://bucket/p"}, "s3", nil},
		{Place{"s3", "s3://bucket/p"}.Sealed(key), "s3+sealed", nil},
		{Place{"node", "/x"}, "dir", nil},
		{Place{"node", "/%n"}.Sealed(key).WithFolder("/n1"), "dir+sealed", nil},
		{Place{"tape", "/x"}, "", ErrKind},
		{Place{"tape", "/x"}.Sealed(key), "", ErrKind},
		{Place{"dir", "/x"}.Sealed(key + "2"), "", sealed.ErrKey},
		{Place{"s3", "http://x"}, "", s3.ErrConfig},
	} {
		st, err := o.Open(c.place)
		if !errors.Is(err, c.err) || err == nil && st.Kind() != c.kind {
			t.Errorf("%+v: %v, %v", c.place, st, err)
		}
	}
	if p := (Place{"node", "/%n"}).Sealed(key).WithFolder("/n1"); p.Inner() != (Place{"node", "/n1"}) || p != (Place{"node", "/n1"}).Sealed(key) {
		t.Errorf("%+v", p)
	}
	if p := (Place{"node", "/%n"}).WithFolder("/n1"); p != (Place{"node", "/n1"}) {
		t.Errorf("%+v", p)
	}
}
