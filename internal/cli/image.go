package cli

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	crself "github.com/gorun-mpi/gorun/cr/self"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

var imageCommand = command{
	name: "image", args: "inspect FILE... | export SNAPSHOT -o DIR", short: "look into images, and take variables out of them",
	long: `
inspect reads image files, checks every checksum in them, and prints whose they are
and what they hold. What another user has written, or could have, is read only with -trust.

export writes the registered variables of portable images that are numbers, bools,
arrays or slices of these, or slices of slices of equal lengths, as files of NumPy
(-format npy: DIR/rank-00003/NAME.npy) or HDF5 (-format hdf5: DIR/rank-00003.h5 with a
dataset for each). A variable that is distributed over all ranks (packages dist and device) is
one array, in DIR/global, unless -rank asks for one rank's rows.
Other variables are named and left out. SNAPSHOT is as in gorun
restart. Numbers stay as they are, in the byte order of the machine that wrote them;
bools are bytes in HDF5. In names of files and datasets / and % are written %2F and %25.

    gorun image export -format hdf5 latest -rank 0 -name field -o out`,
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		asJSON := fs.Bool("json", false, "of inspect: print it as JSON")
		out := &exportFlags{}
		out.declare(fs)
		return func(args []string) int {
			if len(args) < 2 || args[0] != "inspect" && args[0] != "export" {
				return usage(std, "usage: gorun image inspect FILE... | export [flags] SNAPSHOT -o DIR")
			}
			rest, err := parseMixed(fs, args[1:])
			if errors.Is(err, flag.ErrHelp) {
				fmt.Fprint(std.out, lookup("image").help())
				return spec.ExitOK
			}
			if err != nil {
				return usage(std, "%v ('gorun help image' tells the flags)", err)
			}
			if args[0] == "export" {
				return out.run(rest, std)
			}
			code := spec.ExitOK
			for _, path := range rest {
				if err := inspect(std, path, *asJSON, out.trust); err != nil {
					code = failed(std, err)
				}
			}
			return code
		}
	},
}

// inspected is what inspect prints as JSON.
type inspected struct {
	Path     string            `json:"path"`
	Version  int               `json:"version"`
	Size     int64             `json:"size"`
	Digest   string            `json:"digest"`
	Meta     image.Meta        `json:"meta"`
	Process  []whole.Fact      `json:"process,omitempty"` // of a whole process
	Sections []image.Section   `json:"sections"`
	Shares   map[string]string `json:"shares,omitempty"` // of a portable image, by variable: which rows of a whole it has, or that it is the same on all ranks
	Damage   string            `json:"damage,omitempty"`
}

func inspect(std stdio, path string, asJSON, trust bool) error {
	open := owned.Open
	if trust {
		open = owned.OpenTrusted
	}
	f, err := open(path)
	if err != nil {
		return foreign(err, toRead)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	r, err := image.NewReader(f, st.Size(), path)
	if err != nil {
		return err
	}
	bad := r.Verify()
	in := inspected{Path: path, Version: r.Version(), Size: r.Size(), Digest: r.Digest(), Meta: r.Meta(), Sections: r.Sections()}
	if bad != nil {
		in.Damage = bad.Error()
	}
	if by, err := whole.Find(in.Meta.Backend); err == nil {
		// The sums are right, so that what cannot be read is of another version.
		in.Process, err = by.Describe(owned.Descriptor(f))
		bad = errors.Join(bad, err)
	}
	if in.Meta.Backend == crself.Backend && bad == nil {
		in.Shares, bad = shares(owned.Descriptor(f))
	}
	if asJSON {
		if err := printJSON(std, in); err != nil {
			return err
		}
		return bad
	}
	if err := printImage(std, &in); err != nil {
		return err
	}
	return bad
}

// shares are what a portable image says of the variables that any number of ranks can restore.
func shares(path string) (map[string]string, error) {
	s, err := crself.Open(image.Path(path))
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, name := range s.Names() {
		if text := s.Share(name); text != "" {
			all[name] = text
		}
	}
	return all, s.Close()
}

func printImage(std stdio, in *inspected) error {
	w := tabwriter.NewWriter(std.out, 0, 8, 2, ' ', 0)
	line := func(name string, value any) { fmt.Fprintf(w, "%s:\t%v\n", name, value) }
	m := &in.Meta
	line("image", in.Path)
	line("format", fmt.Sprintf("version %d, back-end %s %d", in.Version, m.Backend, m.Format))
	line("size", fmt.Sprintf("%d bytes", in.Size))
	line("digest", in.Digest)
	line("job", m.Job)
	line("rank", fmt.Sprintf("%d of %d", m.Rank, m.Size))
	line("snapshot", m.Seq)
	order := "little-endian"
	if m.BigEndian {
		order = "big-endian"
	}
	line("written on", strings.TrimSuffix(fmt.Sprintf("%s, %s, %s", m.Arch, order, m.Go), ", "))
	line("created", m.Created.Local().Format(time.DateTime))
	if m.Point > 0 {
		line("point", m.Point)
	}
	for _, f := range in.Process {
		line(f.Name, f.Value)
	}
	fmt.Fprintln(w, "\nNAME\tKIND\tTYPE\tSIZE\tSTORED\tZERO")
	for _, s := range in.Sections {
		typ := short(s.Type)
		switch share := in.Shares[s.Name]; {
		case share != "" && (s.Kind == crself.KindWindow || s.Kind == crself.KindDigest):
			continue // it is told with the variable
		case share != "":
			typ += ", " + share
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\n", s.Name, s.Kind, typ, s.Size, s.Stored, s.Zero)
	}
	return w.Flush()
}

// short cuts a type. The type of memory lists every run of pages.
func short(typ string) string {
	const most = 40
	if len(typ) <= most {
		return typ
	}
	return typ[:most] + "..."
}
