package kafkasink

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/segmentio/kafka-go/sasl"
	kgosasl "github.com/twmb/franz-go/pkg/sasl"
)

// maxIterations bounds the work that a broker can ask for: half a second. Kafka
// itself allows 16384.
const maxIterations = 1 << 20

// scramExchange is SCRAM (RFC 5802) for the connections of kafka-go, whose own SCRAM
// prepares the password by SASLprep. Kafka's brokers keep it as it is.
type scramExchange struct{ session kgosasl.Session }

func startScram(ctx context.Context, m kgosasl.Mechanism) (sasl.StateMachine, []byte, error) {
	session, first, err := m.Authenticate(ctx, "")
	return scramExchange{session}, first, err
}

// iterationsOf is the third member of a broker's first message: r=NONCE,s=SALT,i=ITERATIONS.
var iterationsOf = regexp.MustCompile(`,i=([^,]*)`)

// Next implements sasl.StateMachine.
func (x scramExchange) Next(_ context.Context, challenge []byte) (done bool, answer []byte, err error) {
	if asked := iterationsOf.FindSubmatch(challenge); asked != nil {
		if n, err := strconv.Atoi(string(asked[1])); err != nil || n > maxIterations {
			return false, nil, fmt.Errorf("the broker asks for %.20q iterations of SCRAM: at most %d are allowed", asked[1], maxIterations)
		}
	}
	return x.session.Challenge(challenge)
}
