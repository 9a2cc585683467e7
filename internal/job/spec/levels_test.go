package spec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store/sealed"
)

func TestParseEvery(t *testing.T) {
	all, err := ParseEvery("node=1m,dir=10m")
	if err != nil || len(all) != 2 || all[1] != (Every{"dir", 10 * time.Minute}) {
		t.Error(all, err)
	}
	if all, err = ParseEvery("node=auto,dir=auto"); err != nil || len(all) != 2 || all[1] != (Every{"dir", 0}) {
		t.Error(all, err)
	}
	for text, want := range map[string]string{
		"node=auto,dir=1m": "of none", "node=1m,dir=auto": "of none",
		"": "NAME=DURATION", "node": "NAME=DURATION", "node=1m,": "NAME=DURATION", "Node=1m": "NAME=DURATION", "=1m": "NAME=DURATION",
		"node=5": "has a unit", "node=-1s": "positive", "node=1m,node=2m": "twice", "a=1s,b=1s,c=1s,d=1s,e=1s,f=1s,g=1s,h=1s,i=1s": "at most",
	} {
		if _, err := ParseEvery(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "50MB/s": 5e7, "1.5GB/s": 15e8, "800kB/s": 8e5, "300KB/s": 3e5, "4096B/s": 4096} {
		if n, err := ParseRate(text); n != want || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"50", "MB/s", "-1MB/s", "0B/s", "1TB/s", "NaNMB/s", "1e30GB/s"} {
		if n, err := ParseRate(text); err == nil {
			t.Errorf("%q is %d", text, n)
		}
	}
}

func TestSetLevels(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, other); err != nil {
		t.Fatal(err)
	}
	set := func(every, stores string) (*Options, error) {
		o := &Options{CkptLocal: "/scratch/%n", CkptDir: dir, Keep: 5}
		e, err := ParseEvery(every)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseStores(stores)
		if err != nil {
			t.Fatal(err)
		}
		return o, o.SetLevels(e, s)
	}
	o, err := set("far=1h,dir=10m,node=1m", "[dir]\nkeep = 3\nrate = '50MB/s'\n[far]\nkind = 'dir'\nfolder = '/archive'\n[node]\nkeep = 2\n")
	if err != nil {
		t.Fatal(err)
	}
	node := snapshot.Place{Kind: "node", Folder: "/scratch/%n"}
	if o.CkptEvery != time.Minute || o.Base.Place != node || len(o.Levels) != 2 || o.Levels[0].Place != snapshot.Beside || o.Levels[0].Rate != 5e7 || o.Levels[1].Place.Folder != "/archive" {
		t.Errorf("%+v %+v", o.Base, o.Levels)
	}
	for place, want := range map[snapshot.Place]int{node: 2, snapshot.Beside: 3, o.Levels[1].Place: 5, {Kind: "s3"}: 5} {
		if n := o.KeepAt(place); n != want {
			t.Errorf("%s keeps %d", place, n)
		}
	}
	if o, err = set("dir=5s", ""); err != nil || o.CkptLocal != "" || len(o.Levels) != 0 {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err = set("mem=1s,dir=1m", "[mem]\nmirror='ring'\nrate='20MB/s'"); err != nil || o.Base.Rate != 2e7 {
		t.Errorf("%+v, %v", o.Base, err)
	}
	key := filepath.Join(dir, "key")
	if err := sealed.NewKey(key); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ every, stores string }{ // what a job that is stopped writes is sealed, as what it wrote before is
		{"node=1m,dir=10m", "[node]\nkey_file = '" + key + "'"},
		{"mem=1s,node=1m,dir=10m", "[mem]\nmirror='ring'\n[node]\nkey_file = '" + key + "'"},
		{"mem=1s,dir=10m", "[mem]\nmirror='ring'\n[dir]\nkey_file = '" + key + "'"},
		{"mem=1s,far=10m", "[mem]\nmirror='ring'\n[far]\nkind='dir'\nfolder='/archive'\nkey_file = '" + key + "'"},
		{"mem=1s,s3=10m", "[mem]\nmirror='ring'\n[s3]\nplace = 's3://bucket/p'\nkey_file = '" + key + "'"},
	} {
		if o, err = set(x.every, x.stores); err != nil || o.CkptKey != key {
			t.Errorf("%s: key %q, %v", x.every, o.CkptKey, err)
		}
	}
	for _, x := range []struct{ every, stores, want string }{
		{"dir=1m,node=10m", "", "survives less"},
		{"node=1m,dir=5m,pfs=10m", "[pfs]\nkind = 'dir'", "one place"},
		{"dir=5m,pfs=10m", "[pfs]\nkind = 'dir'\nfolder = '" + dir + "/'", "one place"},
		{"dir=5m,pfs=10m", "[pfs]\nkind = 'dir'\nfolder = '" + other + "'", "one place"},
		{"tape=1m", "", "not known"},
		{"dir=1m,far=2m", "[far]\nkind='dri'\nfolder='/a'", "not known"},
		{"node=1m", "[dir]\nkeep=1", "no level"},
		{"node=1m", "[node]\nrate='1MB/s'", "the ranks write"},
		{"far=1m", "[far]\nkind='dir'\nfolder='/a'", "most frequent"},
		{"node=1m", "[node]\nfolder='a'", "from / on"},
		{"mem=1s,dir=1m", "[mem]\nmirror='ring'\nkeep=3", "keep is for kind dir, node, s3"},
		{"mem=1s,dir=1m", "[mem]\nmirror='ring'\nkey_file='/k'", "memory is not sealed"},
		{"mem=1s,dir=1m", "[mem]\nmirror='ring'\nfolder='/a'", "folder is for kind dir, node"},
		{"node=1s,dir=1m", "[dir]\nmirror='ring'", "mirror is for kind mem"},
		{"node=1s,dir=1m", "[dir]\nplace='s3://bucket/p'", "place is for kind s3"},
	} {
		if _, err := set(x.every, x.stores); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v", x, err)
		}
	}
	for _, text := range []string{"[dir]\nkeep=-1", "[dir]\nspeed=1", "dir=1", "[dir]\nrate='fast'"} {
		if _, err := ParseStores(text); err == nil {
			t.Errorf("%q is understood", text)
		}
	}
}

func FuzzParseStores(f *testing.F) {
	f.Add("[dir]\nkeep = 3\nrate = '50MB/s'", "node=1m,dir=10m")
	f.Fuzz(func(t *testing.T, stores, every string) {
		s, err := ParseStores(stores)
		if err != nil {
			return
		}
		e, err := ParseEvery(every)
		if err != nil {
			return
		}
		o := &Options{CkptLocal: "/x"}
		if o.SetLevels(e, s) == nil && (o.Base == nil || len(o.Levels) != len(e)-1) {
			t.Errorf("%+v", o)
		}
	})
}
