package mpi_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/exampletest"
)

// docs/mpi.md tells of every call of the standard what it is here. It names calls that exist, all of them, and no
// call of the standard twice.
func TestStandardIsListed(t *testing.T) {
	page, err := os.ReadFile("../docs/mpi.md")
	if err != nil {
		t.Fatal(err)
	}
	calls, names, cited := exported(t)
	listed, known := map[string]bool{}, map[string]bool{}
	quoted := regexp.MustCompile("`([A-Z]\\w*(?:\\.[A-Z]\\w*)?)`")
	function := regexp.MustCompile(`MPI_[A-Z]\w*`)
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(line, " | ")
		theirs, ours := cells[0], strings.TrimSuffix(strings.TrimSpace(strings.Join(cells[1:], " | ")), " |")
		for _, f := range function.FindAllString(theirs, -1) {
			if known[f] {
				t.Errorf("%s is listed twice", f)
			}
			known[f] = true
		}
		here := quoted.FindAllStringSubmatch(ours, -1)
		if !strings.HasPrefix(theirs, "| `MPI_") { // of what MPI does not have
			here = quoted.FindAllStringSubmatch(theirs, -1)
		}
		for _, m := range here {
			if !names[m[1]] {
				t.Errorf("%s: there is no %s", theirs, m[1])
			}
			listed[m[1]] = true
		}
		if later, no := strings.HasPrefix(ours, "later"), strings.HasPrefix(ours, "no:"); len(here) == 0 && !later && !no {
			t.Errorf("%s: neither a call, nor later, nor why not", theirs)
		}
	}
	for _, name := range calls {
		if !listed[name] {
			t.Errorf("%s is not on the page", name)
		}
	}
	for _, f := range cited {
		if !known[f] {
			t.Errorf("a comment names %s, which is not on the page", f)
		}
	}
	if len(known) < 500 || len(calls) < 100 {
		t.Errorf("%d calls of the standard, %d of the package", len(known), len(calls))
	}
}

// exported returns the calls of the package, all names that programs see, and the functions of MPI in comments.
func exported(t *testing.T) (calls []string, names map[string]bool, cited []string) {
	pkgs, err := parser.ParseDir(token.NewFileSet(), ".", func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	names = map[string]bool{}
	for _, f := range pkgs["mpi"].Files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = exampletest.Receiver(d.Recv.List[0].Type) + "." + name
				}
				if !ast.IsExported(d.Name.Name) || !ast.IsExported(name) {
					continue
				}
				calls, names[name] = append(calls, name), true
				for _, f := range regexp.MustCompile(`MPI_[A-Z][a-z]\w*`).FindAllString(d.Doc.Text(), -1) {
					cited = append(cited, f)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok && s.Name.IsExported() {
						names[s.Name.Name] = true
					}
				}
			}
		}
	}
	slices.Sort(calls)
	return calls, names, cited
}
