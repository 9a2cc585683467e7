package hosts

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ParseHosts reads a list of nodes separated by commas: a:2,user@b,[fd77::1]:2.
func ParseHosts(s string) ([]Node, error) {
	l := newList()
	for word := range strings.SplitSeq(s, ",") {
		n, err := parseNode(strings.TrimSpace(word))
		if err == nil {
			err = l.add(n)
		}
		if err != nil {
			return nil, err
		}
	}
	return l.done(false)
}

// ParseFile reads a host file, as the package comment describes it. Errors begin with name and line.
func ParseFile(r io.Reader, name string) ([]Node, error) {
	return parseLines(r, name, false, parseLine)
}

// parseLines reads a file whose lines are nodes. If counted, a line without slots is one slot.
func parseLines(r io.Reader, name string, counted bool, parse func(string) (Node, error)) ([]Node, error) {
	l, lines := newList(), bufio.NewScanner(r)
	number := 0
	for lines.Scan() {
		number++
		text := lines.Text()
		if number == 1 {
			text = strings.TrimPrefix(text, "\ufeff") // the mark that editors on Windows put before UTF-8
		}
		line, _, _ := strings.Cut(text, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		n, err := parse(line)
		if err == nil {
			err = l.add(n)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = errors.New("the line is too long for a host file")
		}
		return nil, fmt.Errorf("%s:%d: %w", name, number+1, err)
	}
	nodes, err := l.done(counted)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return nodes, nil
}

// parseLine reads a node and its properties, key=value. There may be spaces around the equals sign.
func parseLine(line string) (Node, error) {
	fields := strings.Fields(strings.ReplaceAll(line, "=", " = "))
	n, err := parseNode(fields[0])
	if err != nil {
		return Node{}, err
	}
	for rest := fields[1:]; len(rest) > 0; rest = rest[3:] {
		if len(rest) < 3 || rest[1] != "=" {
			return Node{}, fmt.Errorf("%q after node %s: write key=value", rest[0], n.Name)
		}
		if err := n.set(rest[0], rest[2]); err != nil {
			return Node{}, err
		}
	}
	return n, nil
}

// set sets one property of a host file.
func (n *Node) set(key, value string) error {
	switch key {
	case "slots":
		return n.setSlots(value)
	case "max_slots", "max-slots", "slots_max", "slots-max":
		v, err := parseSlots(value)
		if err != nil {
			return fmt.Errorf("%s: %s %w", n.Name, key, err)
		}
		n.MaxSlots = v
	case "user", "username", "user_name", "user-name":
		if err := checkWord("user", value); err != nil {
			return err
		}
		if n.User != "" && n.User != value {
			return fmt.Errorf("%s: the user is given twice, %s and %s", n.Name, n.User, value)
		}
		n.User = value
	case "addr":
		if _, err := parseAddr(value); errors.Is(err, errZone) {
			return fmt.Errorf("%s: addr=%w", n.Name, err)
		} else if err != nil {
			return fmt.Errorf("%s: addr=%s is no IP address", n.Name, value)
		}
		n.Addr = value
	default:
		return fmt.Errorf("%s: %s=%s is not known; known are slots, max_slots, user and addr", n.Name, key, value)
	}
	return nil
}
