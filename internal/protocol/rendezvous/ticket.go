package rendezvous

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Keeper is the Agent of a ticket for the keeper of a node.
const Keeper = -1

// MinSecret is the least length of a secret that is given, in bytes. A shorter one could be guessed
// from a recorded certificate.
const MinSecret = 32

// ErrSecret is wrapped by the error about a secret that is too short.
var ErrSecret = errors.New("home: the secret is too short")

// Ticket is what a process needs to call home. It is JSON on its way. It is as secret as its token: String
// leaves that out.
type Ticket struct {
	Addresses   []string // host:port, by preference
	Fingerprint [32]byte // SHA-256 of the public key in the home's certificate
	Token       [32]byte
	Job         string
	Node        int
	Agent       int // Keeper: the node's keeper
	Life        int
}

// String returns all but the token.
func (t Ticket) String() string {
	return fmt.Sprintf("ticket of %s, job %s, home at %q", t.identity(), t.Job, t.Addresses)
}

// GoString is String, so that no verb prints the token.
func (t Ticket) GoString() string { return t.String() }

func (t *Ticket) identity() identity { return identity{t.Node, t.Agent, t.Life} }

// ticketJSON is a Ticket with its bytes as text.
type ticketJSON struct {
	Addresses   []string `json:"addresses"`
	Fingerprint string   `json:"fingerprint"`
	Token       string   `json:"token"`
	Job         string   `json:"job"`
	Node        int      `json:"node"`
	Agent       int      `json:"agent"`
	Life        int      `json:"life"`
}

// MarshalJSON writes a ticket, its token included.
func (t Ticket) MarshalJSON() ([]byte, error) {
	return json.Marshal(ticketJSON{t.Addresses, hex.EncodeToString(t.Fingerprint[:]), hex.EncodeToString(t.Token[:]),
		t.Job, t.Node, t.Agent, t.Life})
}

// UnmarshalJSON reads a ticket. It refuses an incomplete one.
func (t *Ticket) UnmarshalJSON(p []byte) error {
	var j ticketJSON
	if err := json.Unmarshal(p, &j); err != nil {
		return fmt.Errorf("home: ticket: %w", err)
	}
	read := Ticket{Addresses: j.Addresses, Job: j.Job, Node: j.Node, Agent: j.Agent, Life: j.Life}
	if err := read.identity().check(); err != nil {
		return fmt.Errorf("home: ticket: %w", err)
	}
	for _, f := range []struct {
		name string
		text string
		to   []byte
	}{{"fingerprint", j.Fingerprint, read.Fingerprint[:]}, {"token", j.Token, read.Token[:]}} {
		if b, err := hex.DecodeString(f.text); err != nil || copy(f.to, b) != len(f.to) || len(b) != len(f.to) {
			return fmt.Errorf("home: ticket: its %s is not 32 bytes in hex", f.name)
		}
	}
	*t = read
	return nil
}

// identity identifies a caller.
type identity struct{ node, agent, life int }

func (id identity) String() string {
	if id.agent == Keeper {
		return fmt.Sprintf("the keeper of node %d", id.node)
	}
	return fmt.Sprintf("agent %d of node %d in life %d", id.agent, id.node, id.life)
}

// check refuses an impossible identity.
func (id identity) check() error {
	if id.node < 0 || id.node > math.MaxInt32 || id.agent < Keeper || id.agent > math.MaxInt32 || id.life < 0 {
		return fmt.Errorf("node %d, agent %d, life %d is nobody", id.node, id.agent, id.life)
	}
	return nil
}

// keys are what is derived from a job's secret.
type keys struct {
	root    []byte
	private ed25519.PrivateKey // of the certificate
}

func deriveKeys(secret []byte, job string) (keys, error) {
	root, err := hkdf.Extract(sha256.New, secret, []byte("gorun home 1: "+job))
	if err != nil {
		return keys{}, fmt.Errorf("home: %w", err)
	}
	k := keys{root: root}
	seed := k.expand("certificate", ed25519.SeedSize)
	k.private = ed25519.NewKeyFromSeed(seed)
	return k, nil
}

// expand derives n bytes. It fails for no length that is asked for here.
func (k keys) expand(what string, n int) []byte {
	b, err := hkdf.Expand(sha256.New, k.root, what, n)
	if err != nil {
		panic(err)
	}
	return b
}

// token is the key with which the caller id proves itself.
func (k keys) token(id identity) (token [32]byte) {
	info := binary.LittleEndian.AppendUint64([]byte("token "), uint64(id.node))
	info = binary.LittleEndian.AppendUint64(info, uint64(id.agent))
	info = binary.LittleEndian.AppendUint64(info, uint64(id.life))
	copy(token[:], k.expand(string(info), len(token)))
	return token
}

// fingerprint is the digest by which callers know the home.
func (k keys) fingerprint() ([32]byte, error) {
	spki, err := x509.MarshalPKIXPublicKey(k.private.Public())
	if err != nil {
		return [32]byte{}, fmt.Errorf("home: %w", err)
	}
	return sha256.Sum256(spki), nil
}

func (k keys) ticket(job string, addresses []string, id identity) (Ticket, error) {
	f, err := k.fingerprint()
	return Ticket{Addresses: addresses, Fingerprint: f, Token: k.token(id), Job: job, Node: id.node, Agent: id.agent, Life: id.life}, err
}

// Derive makes the ticket that the home with this secret and job would give. Any process that knows
// the secret can call it.
func Derive(secret []byte, job string, addresses []string, node, agent, life int) (Ticket, error) {
	if len(secret) < MinSecret {
		return Ticket{}, fmt.Errorf("%w: %d bytes, at least %d are needed", ErrSecret, len(secret), MinSecret)
	}
	id := identity{node, agent, life}
	if err := id.check(); err != nil {
		return Ticket{}, fmt.Errorf("home: %w", err)
	}
	k, err := deriveKeys(secret, job)
	if err != nil {
		return Ticket{}, err
	}
	return k.ticket(job, addresses, id)
}
