package rendezvous

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/internal/system/ifaddr"
)

var anyIdentity = rapid.Custom(func(t *rapid.T) identity {
	return identity{
		rapid.IntRange(0, math.MaxInt32).Draw(t, "node"),
		rapid.IntRange(Keeper, math.MaxInt32).Draw(t, "agent"),
		rapid.IntRange(0, math.MaxInt64).Draw(t, "life"),
	}
})

// A claim is read as it was written; another identity has another token; a proof is of one side,
// connection and identity only.
func TestClaims(t *testing.T) {
	k, err := deriveKeys(make([]byte, 32), "job")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyIdentity.Draw(t, "a"), anyIdentity.Draw(t, "b")
		token, x := k.token(a), rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "x")
		if (token == k.token(b)) != (a == b) {
			t.Fatalf("tokens of %v and %v", a, b)
		}
		c := claim{a, prove(token, asCaller, x, a)}
		back, err := parseClaim(c.append(nil))
		if err != nil || back != c {
			t.Fatalf("%v, %v", back, err)
		}
		if c.proof == prove(token, asHome, x, a) || c.proof == prove(token, asCaller, append([]byte{x[0] ^ 1}, x[1:]...), a) {
			t.Fatal("one proof for two")
		}
		if a != b && c.proof == prove(token, asCaller, x, b) {
			t.Fatal("one proof for two callers")
		}
	})
}

// What is derived from a secret is the same in every release: heads and callers may be of two.
func TestDerivation(t *testing.T) {
	ticket, err := Derive(bytes.Repeat([]byte{1}, 32), "j", nil, 1, Keeper, 0)
	if err != nil {
		t.Fatal(err)
	}
	proof := prove(ticket.Token, asCaller, make([]byte, 32), ticket.identity())
	for _, c := range []struct {
		got  [32]byte
		want string
	}{
		{ticket.Fingerprint, "4c6b41d174ddf848df2e32562590b5d02dc161bfe6c7be27c13cafc12f43281c"},
		{ticket.Token, "ae8b86368917629f19f50fa43938738a3a7dbda5ba26a2c17335ef9acb707825"},
		{proof, "637145a3141310f343180fafc6b00a941ac8281278f87468fcf1331a3e7d1eb8"},
	} {
		if got := hex.EncodeToString(c.got[:]); got != c.want {
			t.Errorf("%s, it was %s", got, c.want)
		}
	}
}

// No verb of package fmt shows a token.
func TestTicketPrinted(t *testing.T) {
	ticket, err := Derive(bytes.Repeat([]byte{1}, 32), "j", []string{"a:1"}, 1, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, v := range []any{ticket, &ticket} {
			p := fmt.Sprintf(verb, v)
			if strings.Contains(p, hex.EncodeToString(ticket.Token[:4])) || strings.Contains(p, fmt.Sprint(ticket.Token[0], " ", ticket.Token[1])) {
				t.Errorf("%s: %s", verb, p)
			}
			if !strings.Contains(p, "agent 2 of node 1 in life 3") {
				t.Errorf("%s: %s", verb, p)
			}
		}
	}
}

func FuzzClaim(f *testing.F) {
	c := claim{identity: identity{1, Keeper, 3}}
	f.Add(c.append(nil))
	f.Add([]byte("home"))
	f.Fuzz(func(t *testing.T, p []byte) {
		c, err := parseClaim(p)
		if err != nil {
			return
		}
		if err := c.check(); err != nil {
			t.Error(err)
		}
		if back := c.append(nil); !bytes.Equal(back, p) {
			t.Errorf("%x became %x", p, back)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add(append([]byte{accepted}, make([]byte, 32)...))
	f.Add([]byte{refused})
	f.Fuzz(func(t *testing.T, p []byte) {
		verdict, proof, err := parseAnswer(p)
		if err == nil && !bytes.Equal(append([]byte{verdict}, proof[:]...), p) {
			t.Errorf("%x became %d %x", p, verdict, proof)
		}
	})
}

func FuzzTicket(f *testing.F) {
	ticket, err := Derive(bytes.Repeat([]byte{1}, 32), "j", []string{"a:1"}, 1, 2, 3)
	if err != nil {
		f.Fatal(err)
	}
	p, err := json.Marshal(ticket)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, p []byte) {
		var a, b Ticket
		if a.UnmarshalJSON(p) != nil {
			return
		}
		q, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(q, &b); err != nil || a.Token != b.Token || a.Fingerprint != b.Fingerprint || a.identity() != b.identity() {
			t.Errorf("%s became %s: %v", p, q, err)
		}
	})
}

// Loopback is for machines that have nothing else.
func TestUsable(t *testing.T) {
	at := func(list ...string) (all []ifaddr.Address) {
		for _, s := range list {
			p := netip.MustParsePrefix(s)
			all = append(all, ifaddr.Address{IP: p.Addr(), Bits: p.Bits()})
		}
		return all
	}
	for _, c := range []struct {
		all  []ifaddr.Address
		want string
	}{
		{at("127.0.0.1/8", "::1/128", "10.0.0.7/24", "fd00::7/64", "2001:db8::1/128"), "[10.0.0.7/24 fd00::7/64 2001:db8::1/128]"},
		{at("127.0.0.1/8", "10.9.9.9/32"), "[10.9.9.9/32]"},
		{at("127.0.0.1/8", "::1/128", "169.254.1.1/16"), "[127.0.0.1/8 ::1/128]"},
		{nil, "[]"},
	} {
		if got := fmt.Sprint(usable(c.all)); got != c.want {
			t.Errorf("%v: %s, want %s", c.all, got, c.want)
		}
	}
}

// This machine has addresses, and a home's tickets name them with its port, the user's own first.
func TestAddresses(t *testing.T) {
	all, err := Addresses()
	if err != nil || len(all) == 0 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, p := range all {
		if !p.IsValid() || p.Addr().IsLinkLocalUnicast() || p.Addr().IsUnspecified() || p.Addr().IsLoopback() != all[0].Addr().IsLoopback() {
			t.Errorf("%v", p)
		}
	}
	h := open(t, Config{Addresses: []string{"front", "gate:99", "fd00::9"}})
	_, port, _ := net.SplitHostPort(h.listener.Addr().String())
	got := h.Ticket(0, 0, 0).Addresses
	want := []string{"front:" + port, "gate:99", "[fd00::9]:" + port, net.JoinHostPort(all[0].Addr().String(), port)}
	if len(got) != 3+len(all) || fmt.Sprint(got[:4]) != fmt.Sprint(want) {
		t.Errorf("%v, not %v", got, want)
	}
}
