package spec

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/s3"
	"github.com/gorun-mpi/gorun/cr/store/sealed"
)

// Level is a place for snapshots with its settings.
type Level struct {
	Name  string
	Place snapshot.Place // without its seal
	Every time.Duration  // between two snapshots there
	Key   string         // file with the key that seals it; "": none, or that of -ckpt-key
	Keep  int            // snapshots kept there; 0: as many as -keep says
	Rate  int64          // limit in bytes a second of copies to it on each node, of mem: of copies and shards on other nodes; 0: none
}

// Every is a part of -ckpt-every: a level by name and its interval.
type Every struct {
	Name string
	D    time.Duration // 0: chosen by gorun, then for all levels
}

// ParseEvery reads what -ckpt-every has for several levels, as in node=1m,dir=10m.
func ParseEvery(text string) ([]Every, error) {
	var all []Every
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok || !isLevelName(name) {
			return nil, fmt.Errorf("%.80q: a level is NAME=DURATION, as in node=1m,dir=10m", part)
		}
		d, err := time.ParseDuration(value)
		if value == EveryAuto {
			d, err = 0, nil
		} else if err != nil || d <= 0 {
			return nil, fmt.Errorf("%s=%.80s: a duration has a unit and is positive, as in %s=10m", name, value, name)
		}
		if slices.ContainsFunc(all, func(e Every) bool { return e.Name == name }) {
			return nil, fmt.Errorf("level %s is named twice", name)
		}
		if len(all) > 0 && (d == 0) != (all[0].D == 0) {
			return nil, fmt.Errorf("%s=%s: the intervals of all levels are auto, or of none", name, value)
		}
		all = append(all, Every{name, d})
	}
	if len(all) > mostLevels {
		return nil, fmt.Errorf("%d levels, at most %d", len(all), mostLevels)
	}
	return all, nil
}

const mostLevels = 8

// EveryAuto is the interval that gorun chooses.
const EveryAuto = "auto"

func isLevelName(name string) bool {
	for i, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || i > 0 && ('0' <= c && c <= '9' || c == '-' || c == '_')) {
			return false
		}
	}
	return name != "" && len(name) <= 32
}

// StoreConfig is what -stores says of one store.
type StoreConfig struct {
	Kind   string `toml:"kind"`     // default: its name
	Folder string `toml:"folder"`   // of a dir, where all nodes see it; of node, on each
	Place  string `toml:"place"`    // of s3: s3://BUCKET/PREFIX?endpoint=URL
	Key    string `toml:"key_file"` // seals it
	Mirror string `toml:"mirror"`   // of mem, as -ckpt-mirror
	Keep   int    `toml:"keep"`
	Rate   string `toml:"rate"` // such as 50MB/s
}

// ParseStores reads the text of -stores: a table for each store, by name.
func ParseStores(text string) (map[string]StoreConfig, error) {
	all := map[string]StoreConfig{}
	md, err := toml.Decode(text, &all)
	if err != nil {
		return nil, err
	}
	if keys := md.Undecoded(); len(keys) > 0 {
		return nil, fmt.Errorf("unknown key %q: known are kind, folder, place, key_file, mirror, keep and rate", keys[0].String())
	}
	for name, c := range all {
		if _, err := ParseRate(c.Rate); err != nil {
			return nil, fmt.Errorf("[%s] %w", name, err)
		}
		if !isLevelName(name) || c.Keep < 0 {
			return nil, fmt.Errorf("[%.80s] keep = %d: a name is of small letters, and keep is not negative", name, c.Keep)
		}
	}
	return all, nil
}

// ReadStores is ParseStores of a file; "" has no stores.
func ReadStores(path string) (map[string]StoreConfig, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all, err := ParseStores(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// ParseRate reads bytes a second: 50MB/s, 1GB/s, 800kB/s. "" is 0, no limit.
func ParseRate(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	num, ok := strings.CutSuffix(text, "B/s")
	unit := 1.0
	for _, u := range []struct {
		name string
		n    float64
	}{{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}} {
		if n, has := strings.CutSuffix(num, u.name); ok && has {
			num, unit = n, u.n
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
	if !ok || err != nil || !(v*unit >= 1 && v*unit < 1e15) {
		return 0, fmt.Errorf("rate %.80q: write it as 50MB/s, with k, M or G", text)
	}
	return int64(v * unit), nil
}

// strength orders kinds by what they survive: the end of the job, the loss of a node.
func strength(kind string) int {
	switch kind {
	case mem.Kind:
		return 0
	case node.Kind:
		return 1
	}
	return 2
}

// SetLevels completes the options by the levels of -ckpt-every and their settings in -stores. The
// level with the shortest interval is the base, which the ranks write, with CkptAuto the weakest.
// The others get copies of that.
func (o *Options) SetLevels(every []Every, stores map[string]StoreConfig) error {
	o.Levels, o.Base = nil, nil
	var all []Level
	for _, e := range every {
		l, err := o.level(e, stores[e.Name])
		if err != nil {
			return fmt.Errorf("level %s: %w", e.Name, err)
		}
		all = append(all, l)
	}
	for name := range stores {
		if !slices.ContainsFunc(every, func(e Every) bool { return e.Name == name }) {
			return fmt.Errorf("-stores has [%s], which is no level of -ckpt-every", name)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b Level) int {
		if o.CkptAuto {
			return strength(kindOf(a.Place)) - strength(kindOf(b.Place))
		}
		return cmp.Compare(a.Every, b.Every)
	})
	for i, l := range all[1:] {
		if kindOf(l.Place) == mem.Kind {
			return fmt.Errorf("level %s: memory is written by the ranks, so it is the most frequent level", l.Name)
		}
		if weaker := all[i]; strength(kindOf(l.Place)) < strength(kindOf(weaker.Place)) {
			return fmt.Errorf("%s=%v is rarer than %s=%v and survives less: it would be of no use", l.Name, l.Every, weaker.Name, weaker.Every)
		}
		for _, other := range all[:i+1] {
			if other.Place == l.Place {
				return fmt.Errorf("levels %s and %s are one place", other.Name, l.Name)
			}
		}
	}
	base := all[0]
	if base.Rate != 0 && kindOf(base.Place) != mem.Kind {
		return fmt.Errorf("level %s: a rate is for copies, and the ranks write this one", base.Name)
	}
	o.CkptLocal, o.CkptStore = "", ""
	lasting := base // where the last snapshot goes before the job is stopped
	if kindOf(base.Place) == mem.Kind {
		if o.CkptMirror = cmp.Or(stores[base.Name].Mirror, o.CkptMirror); o.CkptMirror == "" {
			return fmt.Errorf("level %s: which other nodes hold copies? give -ckpt-mirror (ring:1, pairs, %s), or mirror in -stores", base.Name, MirrorNone)
		}
		if _, err := ParseMirror(o.CkptMirror); err != nil {
			return fmt.Errorf("level %s: %w", base.Name, err)
		}
		lasting.Place = snapshot.Beside
		if len(all) > 1 {
			lasting.Key = all[1].Key // or this copy would be readable while the other is sealed
			if kindOf(all[1].Place) != store.KindDir {
				lasting.Place = all[1].Place
			}
		}
	} else if o.CkptMirror != "" {
		return errors.New("-ckpt-mirror is for a level mem, and none is named")
	}
	switch kindOf(lasting.Place) {
	case node.Kind:
		o.CkptLocal = lasting.Place.Folder
	case s3.Kind:
		o.CkptStore = lasting.Place.Folder
	default:
		if lasting.Place != snapshot.Beside {
			return fmt.Errorf("level %s: as the most frequent level dir has no folder of its own: -ckpt-dir names it", base.Name)
		}
	}
	if lasting.Key != "" {
		o.CkptKey = lasting.Key // and so all are sealed
	}
	o.CkptEvery, o.Base, o.Levels = base.Every, &base, all[1:]
	return nil
}

func kindOf(p snapshot.Place) string {
	if p == snapshot.Beside {
		return store.KindDir
	}
	return p.Kind
}

func (o *Options) level(e Every, c StoreConfig) (Level, error) {
	l := Level{Name: e.Name, Every: e.D, Keep: c.Keep}
	l.Rate, _ = ParseRate(c.Rate)
	kind := c.Kind
	if kind == "" {
		kind = e.Name
	}
	if err := c.fits(kind); err != nil {
		return l, err
	}
	switch kind {
	case store.KindDir:
		if c.Folder != "" && !filepath.IsAbs(c.Folder) {
			return l, fmt.Errorf("folder %s: a path from / on is wanted", c.Folder)
		}
		if c.Folder != "" && !oneFolder(c.Folder, o.CkptDir) {
			l.Place = snapshot.Place{Kind: store.KindDir, Folder: filepath.Clean(c.Folder)}
		}
	case node.Kind:
		folder := c.Folder
		if folder == "" {
			folder = o.CkptLocal
		}
		if folder == "" {
			return l, errors.New("no folder of the nodes is named: give -ckpt-local, or folder in -stores")
		}
		if _, err := node.Expand(folder, "n"); err != nil {
			return l, err
		}
		l.Place = snapshot.Place{Kind: node.Kind, Folder: folder}
	case mem.Kind:
		l.Place = snapshot.Place{Kind: mem.Kind}
	case s3.Kind:
		at := c.Place
		if at == "" {
			at = o.CkptStore
		}
		if at == "" {
			return l, errors.New("no place is named: give -ckpt-store s3://BUCKET/PREFIX, or place in -stores")
		}
		p, err := s3.Parse(at)
		if err == nil {
			p, err = p.Settled()
		}
		if err != nil {
			return l, err
		}
		l.Place = snapshot.Place{Kind: s3.Kind, Folder: p.String()}
	}
	if c.Key == "" {
		return l, nil
	}
	path, err := filepath.Abs(c.Key)
	if err == nil {
		err = sealed.CheckKey(path)
	}
	l.Key = path
	return l, err
}

// oneFolder reports whether two paths are of one folder.
func oneFolder(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	x, errx := os.Stat(a)
	y, erry := os.Stat(b)
	return errx == nil && erry == nil && os.SameFile(x, y)
}

// fits refuses unknown kinds, and settings that a kind of store does not have.
func (c *StoreConfig) fits(kind string) error {
	if !slices.Contains([]string{mem.Kind, node.Kind, store.KindDir, s3.Kind}, kind) {
		return fmt.Errorf("kind %q is not known: known are mem, node, dir and s3", kind)
	}
	for _, x := range []struct {
		key   string
		given bool
		of    []string // kinds
		why   string
	}{
		{"folder", c.Folder != "", []string{store.KindDir, node.Kind}, ""},
		{"place", c.Place != "", []string{s3.Kind}, ""},
		{"mirror", c.Mirror != "", []string{mem.Kind}, ""},
		{"keep", c.Keep != 0, []string{store.KindDir, node.Kind, s3.Kind}, ": of those in memory as many stay as are needed"},
		{"key_file", c.Key != "", []string{store.KindDir, node.Kind, s3.Kind}, ": memory is not sealed"},
	} {
		if x.given && !slices.Contains(x.of, kind) {
			return fmt.Errorf("%s is for kind %s%s", x.key, strings.Join(x.of, ", "), x.why)
		}
	}
	return nil
}

// KeepAt is how many snapshots are kept in a place; 0: all. Memory has rules of its own.
func (o *Options) KeepAt(p snapshot.Place) int {
	if p.Kind == mem.Kind {
		return 0
	}
	levels := o.Levels
	if o.Base != nil {
		levels = append([]Level{*o.Base}, levels...)
	}
	for _, l := range levels {
		if l.Place == p && l.Keep > 0 {
			return l.Keep
		}
	}
	return o.Keep
}

// Prunes reports whether any place keeps less than all.
func (o *Options) Prunes() bool {
	return o.Keep > 0 || o.Base != nil && o.Base.Keep > 0 || slices.ContainsFunc(o.Levels, func(l Level) bool { return l.Keep > 0 })
}
