package cuda

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
)

// isPTX tells PTX from CUDA C: its first statement is .version.
func isPTX(source string) bool {
	return strings.HasPrefix(strings.TrimSpace(comments.ReplaceAllString(source, "")), ".version")
}

var (
	comments  = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)
	entryHead = regexp.MustCompile(`\.entry\s+([\w$%]+)\s*(\([^)]*\))?`)
	paramLine = regexp.MustCompile(`^\.param\s+(?:\.align\s+\d+\s+)?\.([a-z])(\d+)((?:\s+\.\w+(?:\s+\d+)?)*)\s+[\w$%]+\s*(?:\[\s*(\d+)\s*\])?$`)
)

// param is a parameter of a kernel, as far as PTX tells.
type param struct {
	size    int
	float   bool
	array   bool // a struct
	pointer bool // certainly
}

// entries reads the kernels of PTX with their parameters.
func entries(ptx string) (map[string][]param, error) {
	found := map[string][]param{}
	for _, m := range entryHead.FindAllStringSubmatch(comments.ReplaceAllString(ptx, ""), -1) {
		params := []param{}
		list := strings.TrimSpace(strings.Trim(m[2], "()"))
		for _, text := range strings.Split(list, ",") {
			if list == "" {
				break
			}
			p, err := parseParam(strings.TrimSpace(text))
			if err != nil {
				return nil, fmt.Errorf("PTX of kernel %s: %w", m[1], err)
			}
			params = append(params, p)
		}
		found[m[1]] = params
	}
	return found, nil
}

func parseParam(text string) (param, error) {
	m := paramLine.FindStringSubmatch(text)
	if m == nil {
		return param{}, fmt.Errorf("%q is no parameter that is known here", text)
	}
	bits, err := strconv.Atoi(m[2])
	if err != nil || bits < 8 || bits > 64 || bits%8 != 0 {
		return param{}, fmt.Errorf("%q has no size that is known here", text)
	}
	p := param{size: bits / 8, float: m[1] == "f", pointer: strings.Contains(m[3], ".ptr")}
	if m[4] != "" {
		n, err := strconv.Atoi(m[4])
		if err != nil || n > 1<<20 {
			return param{}, fmt.Errorf("%q has no size that is known here", text)
		}
		p.size, p.array = p.size*n, true
	}
	return p, nil
}

// fits refuses an argument that the parameter cannot be.
func (p param) fits(a driver.Arg) error {
	switch {
	case p.array:
		return fmt.Errorf("the parameter is a structure of %d bytes: kernels take arrays and numbers", p.size)
	case a.Mem != 0 && (p.size != 8 || p.float):
		return fmt.Errorf("the parameter is a number of %d bytes, the argument an array", p.size)
	case a.Mem == 0 && p.pointer:
		return fmt.Errorf("the parameter is a pointer, the argument a number")
	case a.Mem == 0 && len(a.Value) != p.size:
		return fmt.Errorf("the parameter has %d bytes, the argument %d", p.size, len(a.Value))
	}
	return nil
}

func (p param) describe() driver.Param {
	d := driver.Param{Type: fmt.Sprintf("%d bytes", p.size), Space: driver.Private}
	switch {
	case p.pointer:
		d.Space = driver.Global
	case p.size == 8 && !p.float && !p.array:
		d.Space = driver.Unknown // a pointer or a number
	case !p.array:
		d.Bytes = p.size
	}
	return d
}
