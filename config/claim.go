package config

// Claim is something that only one part of a configuration may use.
type Claim struct {
	Key   string // of the value in the section of the part, such as "directory"
	Kind  ClaimKind
	Value string // empty: nothing is claimed
}

// ClaimKind says what a claim is about.
type ClaimKind int

// What can be claimed.
const (
	Directory ClaimKind = iota // written to
	Socket                     // path of a Unix domain socket that is listened on
	Input                      // path that is read
	Address                    // host:port that is listened on
)

// Claimer is a part of a configuration that claims something. A later part with the same
// claim is a problem.
type Claimer interface {
	Claims() []Claim
}

// ClaimsOf returns what part claims.
func ClaimsOf(part any) []Claim {
	if c, ok := part.(Claimer); ok {
		return c.Claims()
	}
	return nil
}

// String is the word for it in messages.
func (k ClaimKind) String() string {
	return [...]string{"directory", "path", "path", "address"}[k]
}
