// Package exampletest tests that each call of a package is shown by an Example of its own, which go test runs.
package exampletest

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Call is an exported function, or an exported method of an exported type.
type Call struct {
	Name string // as in the name of its Example: Type_Method
	File string
	Decl *ast.FuncDecl
}

// Calls returns the calls of the package in the working folder, which is that of the test.
func Calls(t testing.TB) (all []Call) {
	t.Helper()
	for name, f := range parse(t, false) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() {
				continue
			}
			c := Call{fn.Name.Name, name, fn}
			if fn.Recv != nil {
				on := Receiver(fn.Recv.List[0].Type)
				if !ast.IsExported(on) {
					continue
				}
				c.Name = on + "_" + c.Name
			}
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		t.Fatal("no calls were found")
	}
	return all
}

// Check finds an Example for each call: one that has an Output, so that go test runs it, and that is more than a call of another one.
// Those of run need no Output, as a test of the package runs them in another way.
func Check(t testing.TB, calls []Call, run ...string) {
	t.Helper()
	var files []*ast.File
	for _, f := range parse(t, true) {
		files = append(files, f)
	}
	examples := map[string][]*doc.Example{} // of each call
	for _, e := range doc.Examples(files...) {
		examples[subject(e.Name)] = append(examples[subject(e.Name)], e)
	}
	for _, c := range calls {
		of := examples[c.Name]
		isRun := func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput || slices.Contains(run, e.Name) }
		switch {
		case len(of) == 0:
			t.Errorf("%s has no Example", c.Name)
		case slices.ContainsFunc(of, borrowed):
			t.Errorf("the Example of %s only calls another one", c.Name)
		case !slices.ContainsFunc(of, isRun):
			t.Errorf("the Example of %s has no Output, so it is not run", c.Name)
		}
	}
}

// subject is what an Example is of: its name without a suffix, which begins with a small letter.
func subject(name string) string {
	if i := strings.LastIndexByte(name, '_'); i >= 0 {
		if r, _ := utf8.DecodeRuneInString(name[i+1:]); unicode.IsLower(r) {
			return name[:i]
		}
	}
	return name
}

// borrowed tells whether an Example does no more than call another one.
func borrowed(e *doc.Example) bool {
	body, ok := e.Code.(*ast.BlockStmt)
	if !ok || len(body.List) != 1 {
		return false
	}
	x, ok := body.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := x.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	fn, ok := call.Fun.(*ast.Ident)
	return ok && strings.HasPrefix(fn.Name, "Example")
}

// parse reads the files of the package, or those of its tests.
func parse(t testing.TB, tests bool) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	set := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") != tests {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = f
	}
	return files
}

// Receiver is the name of the type of a receiver.
func Receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return Receiver(t.X)
	case *ast.IndexExpr: // of a type with a parameter
		return Receiver(t.X)
	case *ast.IndexListExpr: // with several
		return Receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
