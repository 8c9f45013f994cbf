//! What questions and answers promise: one encoding, golden bytes, decoders that take anything.

use super::*;

fn question() -> Question {
    let partition = PartitionId { namespace: NamespaceId::new(16), index: PartitionIndex::new(3) };
    let first = PartitionOffset::new(257).unwrap();
    Question { partition, first, count: 2, digest: digest([&b"one"[..], b"two"]) }
}

fn answers() -> [Answer; 3] {
    let (end, through) = (PartitionOffset::new(9), Some(LogIndex::new(0)));
    let outcomes = vec![Bytes::from("one"), Bytes::new(), Bytes::from("three")];
    [
        Answer { end, through, page: AnswerPage::Same },
        Answer { end, through, page: AnswerPage::Outcomes(outcomes) },
        Answer { end: None, through: None, page: AnswerPage::Outcomes(Vec::new()) },
    ]
}

#[test]
fn golden_bytes() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let sum = |body: &str| {
        let bytes: Vec<u8> =
            (0..body.len()).step_by(2).map(|at| u8::from_str_radix(&body[at..at + 2], 16).unwrap()).collect();
        hex(&crc32c::crc32c(&bytes).to_le_bytes())
    };
    let digest = hex(&question().digest);
    let body = format!("0101100000000300010100000000000002000000{digest}");
    assert_eq!(hex(&question().encode()), sum(&body) + &body);
    let bodies = [
        "010209000000000000000100000000000000",
        "01010900000000000000010000000000000003000000030000006f6e6500000000050000007468726565",
        "01010000000000000000000000000000000000000000",
    ];
    for (answer, body) in answers().iter().zip(bodies) {
        assert_eq!(hex(&answer.encode()), sum(body) + body);
    }
}

#[test]
fn what_is_encoded_is_decoded_and_nothing_else_is() {
    let encoded = question().encode();
    assert_eq!(Question::decode(&encoded), Ok(question()));
    for answer in answers() {
        let encoded = answer.encode();
        assert_eq!(Answer::decode(&encoded), Ok(answer));
        for at in 0..encoded.len() {
            let mut flipped = encoded.to_vec();
            flipped[at] ^= 1;
            assert!(Answer::decode(&flipped.into()).is_err(), "byte {at}");
            assert!(Answer::decode(&encoded.slice(..at)).is_err(), "{at} bytes");
        }
    }
    for at in 0..encoded.len() {
        assert!(Question::decode(&encoded.slice(..at)).is_err(), "{at} bytes");
    }
    // With a right checksum as well.
    let random = &mut fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..random.usize(..80)).map(|_| random.u8(..4)).collect();
        let bytes = sealed(&bytes);
        if let Ok(answer) = Answer::decode(&bytes) {
            assert_eq!(answer.encode(), bytes);
        }
        if let Ok(question) = Question::decode(&bytes) {
            assert_eq!(question.encode(), bytes);
        }
    }
}
