package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// login authenticates over TLS, produces one record and prints its position.
//
// Arguments after the bootstrap servers and "login": file of the authority, mechanism, user, file of the secret, topic.
func login(seeds string, arguments []string) {
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(read(arguments[0]))
	secret := strings.TrimRight(string(read(arguments[3])), "\n")
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(seeds, ",")...),
		kgo.DialTLSConfig(&tls.Config{RootCAs: authorities}),
		kgo.SASL(mechanism(arguments[1], arguments[2], secret)),
		kgo.DefaultProduceTopic(arguments[4]),
	)
	check(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	check(client.Ping(ctx))
	record, err := client.ProduceSync(ctx, kgo.StringRecord("from "+arguments[1])).First()
	check(err)
	fmt.Println(record.Partition, record.Offset)
}

func mechanism(name, user, secret string) sasl.Mechanism {
	switch name {
	case "PLAIN":
		return plain.Auth{User: user, Pass: secret}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: secret}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: secret}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: secret}.AsMechanism()
	}
	log.Fatalf("unknown mechanism %s", name)
	return nil
}

func read(path string) []byte {
	content, err := os.ReadFile(path)
	check(err)
	return content
}
