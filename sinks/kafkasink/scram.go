package kafkasink

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"strconv"
	"strings"
)

// maxIterations bounds the work that a broker can ask for: half a second. Kafka
// itself allows 16384.
const maxIterations = 1 << 20

// scram is the exchange of SCRAM (RFC 5802), without channel binding. Username and
// password are sent as they are. Kafka's brokers keep them so: they know nothing of
// SASLprep, which changes some characters and refuses others.
type scram struct {
	hash     func() hash.Hash
	password string
	nonce    string // of this side
	first    string // message, without its header
	expect   []byte // signature of the broker, once it is known
}

// newScram returns the exchange and its first message.
func newScram(algorithm func() hash.Hash, username, password string) (*scram, []byte) {
	nonce := rand.Text()
	name := strings.NewReplacer("=", "=3D", ",", "=2C").Replace(username)
	s := &scram{hash: algorithm, password: password, nonce: nonce, first: "n=" + name + ",r=" + nonce}
	return s, []byte("n,," + s.first)
}

// Next implements sasl.StateMachine.
func (s *scram) Next(_ context.Context, challenge []byte) (done bool, answer []byte, err error) {
	if s.expect != nil {
		return true, nil, s.verify(string(challenge))
	}
	answer, err = s.proof(string(challenge))
	return false, answer, err
}

// proof answers the broker's first message: r=NONCE,s=SALT,i=ITERATIONS.
func (s *scram) proof(challenge string) ([]byte, error) {
	nonce, salt, iterations, err := parseChallenge(challenge)
	if err != nil {
		return nil, err
	}
	// Without a part of its own in the nonce, a broker could be one that repeats what it has heard.
	if !strings.HasPrefix(nonce, s.nonce) || nonce == s.nonce {
		return nil, errors.New("the broker's nonce does not extend docket's")
	}
	salted, err := pbkdf2.Key(s.hash, s.password, salt, iterations, s.hash().Size())
	if err != nil {
		return nil, err
	}
	const header = "c=biws,r=" // "n,,"
	message := s.first + "," + challenge + "," + header + nonce
	client := s.sum(salted, "Client Key")
	stored := s.hash()
	stored.Write(client)
	proof := s.sum(stored.Sum(nil), message)
	for i := range proof {
		proof[i] ^= client[i]
	}
	s.expect = s.sum(s.sum(salted, "Server Key"), message)
	return []byte(header + nonce + ",p=" + base64.StdEncoding.EncodeToString(proof)), nil
}

func (s *scram) sum(key []byte, message string) []byte {
	mac := hmac.New(s.hash, key)
	mac.Write([]byte(message))
	return mac.Sum(nil)
}

// verify checks the broker's last message, v=SIGNATURE or e=ERROR: a broker that does not
// know the password cannot sign.
func (s *scram) verify(final string) error {
	if reason, ok := strings.CutPrefix(final, "e="); ok {
		return fmt.Errorf("the broker refused the login: %q", reason)
	}
	text, _, _ := strings.Cut(final, ",")
	signature, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "v="))
	if err != nil || !hmac.Equal(signature, s.expect) {
		return errors.New("the broker does not know the password either: its signature is wrong")
	}
	return nil
}

// What follows, after a comma, are extensions of later versions.
var challengeForm = regexp.MustCompile(`^r=([^,]+),s=([^,]+),i=([0-9]+)(?:,|$)`)

func parseChallenge(challenge string) (nonce string, salt []byte, iterations int, err error) {
	fields := challengeForm.FindStringSubmatch(challenge)
	if fields == nil {
		return "", nil, 0, errors.New("the broker's first message of SCRAM is malformed")
	}
	if salt, err = base64.StdEncoding.DecodeString(fields[2]); err != nil {
		return "", nil, 0, fmt.Errorf("the salt of the broker: %w", err)
	}
	iterations, err = strconv.Atoi(fields[3])
	if err != nil || iterations < 1 || iterations > maxIterations {
		return "", nil, 0, fmt.Errorf("the broker asks for %s iterations, want at most %d", fields[3], maxIterations)
	}
	return fields[1], salt, iterations, nil
}
