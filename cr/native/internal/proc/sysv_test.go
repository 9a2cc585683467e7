package proc

import (
	"reflect"
	"testing"
)

const sysvSample = `       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap
         0          5  1600                  8192 11815 11815      1     0     0     0     0 1795741200          0 1795741200                  8192                     0
-889275714      98304   640                 12293  7123  7124      2  1000   100  1000   100 1795741200          0 1795741200                  8192                     0
`

func TestParseSysV(t *testing.T) {
	got, err := ParseSysV([]byte(sysvSample))
	want := []SysV{
		{ID: 5, Mode: 0o1600, Size: 8192, Creator: 11815, Attached: 1},
		{Key: -889275714, ID: 98304, Mode: 0o640, UID: 1000, GID: 100, Maker: [2]int{1000, 100}, Size: 12293, Creator: 7123, Attached: 2},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = ParseSysV([]byte("       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n" +
		"         7          0   600          1     1     2     3     4          0 1795741200\n"))
	if err != nil || !reflect.DeepEqual(got, []SysV{{Key: 7, Mode: 0o600, UID: 1, GID: 2, Maker: [2]int{3, 4}}}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"key shmid\n1\n", "key shmid\n1 x\n", "key shmid\n1 -2\n", "key perms\n1 9\n"} {
		if got, err := ParseSysV([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// FuzzSysV: whatever the file has, no number of it is below what it may be.
func FuzzSysV(f *testing.F) {
	f.Add([]byte(sysvSample))
	f.Fuzz(func(t *testing.T, p []byte) {
		all, err := ParseSysV(p)
		for _, o := range all {
			if err == nil && (o.ID < 0 || o.UID < 0 || o.Creator < 0 || o.Attached < 0) {
				t.Errorf("%+v", o)
			}
		}
	})
}
