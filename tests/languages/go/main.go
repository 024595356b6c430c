// A work-queue consumer: worker ADDRESS GROUP TOPIC COUNT.
//
// Each record is answered for by itself and has its own durable result; the program ends when COUNT records are finished.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	delivery "worker/gen/sharebroker/delivery/v1"
	gateway "worker/gen/sharebroker/gateway/v1"
)

const credit = 10

func main() {
	address, group, topic := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	check(err)
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	defer connection.Close()

	stream, err := gateway.NewShareServiceClient(connection).Consume(context.Background())
	check(err)
	check(stream.Send(&gateway.ConsumeRequest{
		Subscribe: &gateway.ConsumeRequest_Subscribe{
			GroupId: group, Topics: []string{topic}, Decode: true, AsText: true, ClientId: "go",
		},
		Credit: credit,
	}))

	final := map[uint64]bool{} // by the id of an acknowledgement: whether the record is then finished
	for id, finished := uint64(0), 0; finished < count; {
		answer, err := stream.Recv()
		check(err)
		request := &gateway.ConsumeRequest{}
		for _, record := range answer.Records {
			id++
			verdict := decide(record.GetText(), record.DeliveryCount)
			final[id] = verdict != delivery.AcknowledgeType_ACKNOWLEDGE_TYPE_RELEASE
			fmt.Println(record.Partition, record.Offset, record.DeliveryCount, record.GetText())
			request.Credit++
			request.Acknowledgements = append(request.Acknowledgements, &delivery.Acknowledgement{
				Id: id, TopicId: record.TopicId, Partition: record.Partition, FirstOffset: record.Offset,
				LockToken: record.LockToken, Type: verdict,
			})
		}
		if len(request.Acknowledgements) > 0 {
			check(stream.Send(request))
		}
		for _, result := range answer.Results {
			if result.ErrorCode != 0 {
				log.Fatalln("not applied:", result.ErrorMessage)
			}
			if final[result.Id] {
				finished++
			}
		}
	}
	check(stream.CloseSend())
}

// decide accepts, but rejects what is bad, and releases a "later" for a second try.
func decide(text string, deliveries int32) delivery.AcknowledgeType {
	switch {
	case strings.HasPrefix(text, "bad"):
		return delivery.AcknowledgeType_ACKNOWLEDGE_TYPE_REJECT
	case strings.HasPrefix(text, "later") && deliveries == 1:
		return delivery.AcknowledgeType_ACKNOWLEDGE_TYPE_RELEASE
	}
	return delivery.AcknowledgeType_ACKNOWLEDGE_TYPE_ACCEPT
}

func check(err error) {
	if err != nil {
		log.Fatalln(err)
	}
}
