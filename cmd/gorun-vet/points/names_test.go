package points

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// quiet matches the exported functions and methods of package mpi that exchange no messages a loop could be checkpointed between: those that ask, compute, prepare,
// make communicators and groups, begin and end.
var quiet = regexp.MustCompile(`^(Abort|Add|Arrived|Attach.*|Attr|Bounds|Cancel|Cart|Compare|Completed|Coords|CountOf|Create.*|Delete|Detach.*|Difference|Dims|DistGraph|Done|Dup.*|Err|Error|Exclude|Extent|` +
	`Finalize.*|Free.*|FromWorld|Get|Group|Hints|Include|Info|Init.*|InterComm.*|Intersect|IntercommCreate|IsInter|Merge|Name|Neighbors|New.*|Of|Op.*|Pack.*|Periodic|ProcessorName|Rank.*|Ready|ReduceLocal|` +
	`Remote.*|Repeat|Resized|Rest|Run|Self|Set.*|Shift|Size|Split.*|String|Sub|Translate|Union|Unpack.*|Unwrap|Value.*|Version|With.*|World.*|Apply|[BL](And|Or|Xor)|Combine|Commutative|Contiguous|Decode|Encode|Health|Indexed|Joined|(Max|Min)(Loc)?|Prod|RequestOf|Subarray|Sum|Vector|Wtick|Wtime|.*Init)$`)

// TestNames goes through all that package mpi exports: each call exchanges messages or is known to exchange none.
func TestNames(t *testing.T) {
	files, err := filepath.Glob("../../../mpi/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	seen := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			d, ok := d.(*ast.FuncDecl)
			if !ok || !d.Name.IsExported() {
				continue
			}
			seen++
			name := d.Name.Name
			sends := exchange.MatchString(name) && !prepares.MatchString(name)
			if sends == quiet.MatchString(name) {
				t.Errorf("%s: messages: %t, quiet: %t", name, sends, !sends)
			}
		}
	}
	if seen < 100 {
		t.Errorf("%d calls are few", seen)
	}
}
