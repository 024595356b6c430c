package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// refusals joins a group of each kind where none is served, and writes what polling says.
func (t *tour) refusals() {
	next := context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)
	t.refusal("consumer", kgo.ConsumerGroup(t.group), kgo.WithContext(next))
	t.refusal("share", kgo.ShareGroup(t.group))
}

func (t *tour) refusal(kind string, options ...kgo.Opt) {
	client := t.client(append(options, kgo.ConsumeTopics(t.topic))...)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	fmt.Printf("%s: %v\n", kind, client.PollFetches(ctx).Err())
}
