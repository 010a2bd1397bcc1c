//! Tests that run the procedures one after another and audit the result.

use weft_txn::Key;

use super::rows::{customer, district, order_line, pointer, stock};
use super::*;
use crate::Serial;
use crate::serial::testing::{Run, transcript};

const SMALL: Scale = Scale { shards: 2, warehouses: 2, items: 200, customers: 30 };

fn keys() -> Keys {
    Keys(SMALL)
}

fn findings(serial: &Serial) -> Vec<String> {
    let mut audit = Tpcc::new(SMALL).audit();
    serial.objects().for_each(|(key, value)| audit.object(key, value));
    audit.findings()
}

#[test]
fn the_database_is_consistent_in_the_beginning() {
    let serial = Serial::load(&Tpcc::new(SMALL), 2);
    assert_eq!(findings(&serial), [""; 0]);
    // Condition 11 holds only before the run: 2,100 of a district's 3,000 orders are delivered, here 21 of
    // 30.
    let count = |table| {
        serial
            .objects()
            .filter(|(key, _)| keys().place(*key).is_some_and(|place| place.table == table))
            .count()
    };
    let districts = 4 * 10;
    assert_eq!(count(Table::Order) - count(Table::NewOrder), 21 * districts);
    assert_eq!(count(Table::Customer), 30 * districts);
    assert_eq!(count(Table::History), 30 * districts);
    assert_eq!(count(Table::Stock), 200 * 4);
    assert_eq!(count(Table::Item), 200 * 2);
    assert_eq!(count(Table::LastOrder), 30 * districts);
}

#[test]
fn the_full_scale_is_that_of_the_specification() {
    assert_eq!(Scale::full(6, WAREHOUSES).names(), 1000);
    assert_eq!(Scale::full(6, WAREHOUSES).first_undelivered(), 2101);
}

#[test]
fn a_run_of_all_five_is_consistent() {
    let run = Run::new(&Tpcc::new(SMALL), 2, 3, 30_000, 1);
    // Every kind of transaction has run. Only unused items abort, in one of a hundred new orders.
    assert!(run.begun.iter().all(|&count| count > 200), "{:?}", run.begun);
    assert_eq!(run.aborted[1..], [0; 4]);
    let orders = run.begun[0];
    assert!((orders / 200..orders / 50).contains(&run.aborted[0]), "{} of {orders}", run.aborted[0]);
    // A delivery has ten pieces, one for each district; some clients end in the middle of one.
    assert!(run.committed[3] > 10 * (run.begun[3] - 6) && run.committed[3] <= 10 * run.begun[3]);
    // Stock-level has one piece for the next order, seven for twenty orders, and at least two for the stocks.
    assert!(run.committed[4] >= 9 * (run.begun[4] - 6), "{} for {}", run.committed[4], run.begun[4]);
    assert_eq!(run.findings(), [""; 0]);
}

#[test]
fn the_mix_is_that_of_the_specification() {
    let run = Run::new(&Tpcc::new(SMALL), 2, 1, 40_000, 3);
    let all: u64 = run.begun.iter().sum();
    for (begun, part) in run.begun.iter().zip([45, 43, 4, 4, 4]) {
        // The tolerance is five standard deviations.
        let expected = all as f64 * f64::from(part) / 100.0;
        assert!((*begun as f64 - expected).abs() < 5.0 * expected.sqrt(), "{:?}", run.begun);
    }
}

#[test]
fn new_order_alone_takes_items_from_everywhere() {
    let workload = Tpcc::new_order_only(SMALL);
    assert_eq!(workload.kinds(), ["new-order"]);
    let mut client = workload.client(1, 0, 5);
    let mut supply = [0u32; 4];
    for _ in 0..2_000 {
        let call = client.next(None);
        let accesses = call.request.accesses;
        assert!(accesses.as_slice().len() <= 33);
        for access in accesses.as_slice() {
            let place = keys().place(access.key).unwrap();
            match place.table {
                Table::Stock => supply[usize::from(place.warehouse)] += 1,
                _ => assert_eq!(access.key.shard(), 1, "{place:?}"),
            }
        }
    }
    let all: u32 = supply.iter().sum();
    assert!(all > 16_000 && supply.iter().all(|&count| count.abs_diff(all / 4) < 400), "{supply:?}");
    assert_eq!(Run::new(&workload, 2, 3, 5_000, 1).findings(), [""; 0]);
}

#[test]
fn remote_shares_are_those_of_the_specification() {
    let mut client = Tpcc::new(SMALL).client(0, 0, 5);
    let (mut lines, mut remote_lines, mut payments, mut remote_payments) = (0, 0, 0, 0);
    // The client gets no answers, so every call begins a new transaction.
    for _ in 0..40_000 {
        let call = client.next(None);
        let accesses = call.request.accesses;
        let places = || accesses.as_slice().iter().map(|access| keys().place(access.key).unwrap());
        let home = places().next().unwrap().warehouse;
        match call.kind {
            0 => {
                lines += places().filter(|place| place.table == Table::Stock).count();
                remote_lines +=
                    places().filter(|place| place.table == Table::Stock && place.warehouse != home).count();
            }
            1 => {
                payments += 1;
                remote_payments += usize::from(places().nth(2).unwrap().warehouse != home);
            }
            _ => {}
        }
    }
    // Remote are 1 of 100 lines and 15 of 100 payments. The tolerance is five standard deviations.
    let share = |part: usize, of: usize| part as f64 / of as f64;
    assert!((share(remote_lines, lines) - 0.01).abs() < 0.0013, "{remote_lines} of {lines}");
    assert!((share(remote_payments, payments) - 0.15).abs() < 0.014, "{remote_payments} of {payments}");
}

/// Violates every condition in turn; the audit must find each violation.
#[test]
fn the_audit_sees_each_change() {
    let serial = Run::new(&Tpcc::new(SMALL), 2, 2, 4_000, 1).serial;
    let run = || serial.clone();
    let keys = keys();
    type Change = Box<dyn Fn(&mut [u8])>;
    let cases: [(&str, Key, Change); 8] = [
        ("condition 1", keys.warehouse(1), Box::new(|row| rows::warehouse::YTD.add(row, 1))),
        ("condition 9", keys.district(2, 3), Box::new(|row| district::YTD.add(row, 1))),
        ("condition 2", keys.district(2, 3), Box::new(|row| district::NEXT_ORDER.add(row, 1))),
        ("condition 10", keys.customer(3, 1, 7), Box::new(|row| customer::BALANCE.add(row, 1))),
        ("condition 12", keys.customer(3, 1, 7), Box::new(|row| customer::YTD_PAYMENT.add(row, 1))),
        ("condition 7", keys.order_line(0, 1, 1, 1), Box::new(|row| order_line::DELIVERY_DATE.set(row, 0))),
        ("stock", keys.stock(0, 9), Box::new(|row| stock::YTD.add(row, 1))),
        ("the oldest", keys.oldest_new_order(0, 9), Box::new(|row| pointer::ORDER.add(row, 1))),
    ];
    for (expected, key, change) in cases {
        let mut serial = run();
        let mut row = serial.object(key).unwrap().to_vec();
        change(&mut row);
        serial.replace(key, Some(&row));
        let findings = findings_of_run(&serial);
        assert!(findings.iter().any(|finding| finding.starts_with(expected)), "{expected}: {findings:?}");
    }
    let mut serial = run();
    let newest = pointer::ORDER.get(serial.object(keys.last_order(0, 1, 5)).unwrap()) as u32;
    serial.replace(keys.order_line(0, 1, newest, 1), None);
    let findings = findings_of_run(&serial);
    for expected in ["condition 4", "condition 6"] {
        assert!(findings.iter().any(|finding| finding.starts_with(expected)), "{findings:?}");
    }
    let mut serial = run();
    let undelivered = pointer::ORDER.get(serial.object(keys.oldest_new_order(0, 1)).unwrap()) as u32;
    serial.replace(keys.new_order(0, 1, undelivered + 1), None);
    let findings = findings_of_run(&serial);
    for expected in ["condition 3", "condition 5"] {
        assert!(findings.iter().any(|finding| finding.starts_with(expected)), "{findings:?}");
    }
    let mut serial = run();
    let history = serial.objects().map(|(key, _)| key);
    let history = history.filter(|key| keys.place(*key).unwrap().table == Table::History).last().unwrap();
    serial.replace(history, None);
    let findings = findings_of_run(&serial);
    for expected in ["condition 8", "condition 9", "condition 10"] {
        assert!(findings.iter().any(|finding| finding.starts_with(expected)), "{findings:?}");
    }
}

/// The findings without those about the number of committed transactions, which are unknown here.
fn findings_of_run(serial: &Serial) -> Vec<String> {
    findings(serial).into_iter().filter(|finding| !finding.contains(" in place of ")).collect()
}

#[test]
fn a_lost_transaction_shows_in_the_counts() {
    let mut run = Run::new(&Tpcc::new(SMALL), 2, 2, 2_000, 1);
    let accesses = weft_txn::Accesses::default();
    run.audit.committed(&weft_txn::Request { procedure: PAYMENT, input: Vec::new(), accesses }, &[]);
    let findings = run.findings();
    assert_eq!(findings.len(), 1);
    assert!(findings[0].contains("payments in place of"), "{findings:?}");
}

#[test]
fn an_order_by_hand() {
    let workload = Tpcc::new(SMALL);
    let mut serial = Serial::load(&workload, 2);
    let line = |item, supply_warehouse, quantity| new_order::Line { item, supply_warehouse, quantity };
    // An item twice from the order's own warehouse, and once from another warehouse.
    let lines = vec![line(7, 0, 10), line(7, 0, 10), line(7, 3, 1)];
    let order = new_order::Order { warehouse: 0, district: 4, customer: 9, date: 77, lines };
    let before = |serial: &Serial, warehouse| {
        let row = serial.object(keys().stock(warehouse, 7)).unwrap();
        (stock::QUANTITY.get(row), stock::YTD.get(row), stock::ORDERS.get(row), stock::REMOTE_ORDERS.get(row))
    };
    let (held, _, _, _) = before(&serial, 0);
    let outcome = serial.call(&order.request(&keys()));
    let price = rows::item::PRICE.get(serial.object(keys().item(0, 7)).unwrap());
    let tax = rows::warehouse::TAX.get(serial.object(keys().warehouse(0)).unwrap())
        + district::TAX.get(serial.object(keys().district(0, 4)).unwrap());
    let discount = customer::DISCOUNT.get(serial.object(keys().customer(0, 4, 9)).unwrap());
    let total = 21 * price * (10_000 - discount) * (10_000 + tax) / 100_000_000;
    let answer = crate::input::Writer::default().u32(31).u64(total).0.clone();
    assert_eq!(outcome, Outcome::Committed { answer });
    let take = |held: u64, taken| if held >= taken + 10 { held - taken } else { held + 91 - taken };
    assert_eq!(before(&serial, 0), (take(take(held, 10), 10), 20, 2, 0));
    assert_eq!((before(&serial, 3).1, before(&serial, 3).3), (1, 1));
    let written = serial.object(keys().order(0, 4, 31)).unwrap();
    assert_eq!((rows::order::LINES.get(written), rows::order::ALL_LOCAL.get(written)), (3, 0));
    let information = stock::district_information(serial.object(keys().stock(3, 7)).unwrap(), 4).to_vec();
    let third = serial.object(keys().order_line(0, 4, 31, 3)).unwrap();
    assert_eq!(third[order_line::DISTRICT_INFORMATION..], information);
    assert_eq!(order_line::AMOUNT.get(third), price as i64);
    // The next order fails at its last line, and changes nothing.
    let all: Vec<(Key, Vec<u8>)> = serial.objects().map(|(key, value)| (key, value.to_vec())).collect();
    let lines = vec![line(8, 0, 1), line(201, 0, 1)];
    let outcome = serial.call(&new_order::Order { lines, ..order }.request(&keys()));
    assert_eq!(outcome, Outcome::Aborted { reason: UNUSED_ITEM, answer: Vec::new() });
    assert!(serial.objects().eq(all.iter().map(|(key, value)| (*key, &value[..]))));
}

#[test]
fn a_payment_by_hand() {
    let mut serial = Serial::load(&Tpcc::new(SMALL), 2);
    let bad = |serial: &Serial, number| {
        customer::BAD_CREDIT.get(serial.object(keys().customer(3, 2, number)).unwrap()) == 1
    };
    for credit in [true, false] {
        let number = (1..=30).find(|&number| bad(&serial, number) == credit).unwrap();
        let before = serial.object(keys().customer(3, 2, number)).unwrap().to_vec();
        // There are 30 customers and 30 last names, so each customer has a last name of his own.
        let name = customer::LAST_NAME.get(&before) as u16;
        let paid = payment::Paid {
            warehouse: 0,
            district: 1,
            customer_warehouse: 3,
            customer_district: 2,
            customer: Customer::LastName(name),
            amount: 12_345,
            date: 5,
            number: number + 100,
        };
        let outcome = serial.call(&paid.request(&keys()));
        assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
        let after = serial.object(keys().customer(3, 2, number)).unwrap();
        assert_eq!(customer::BALANCE.get(after), -1_000 - 12_345);
        assert_eq!((customer::YTD_PAYMENT.get(after), customer::PAYMENTS.get(after)), (13_345, 2));
        assert_eq!(after[customer::DATA..] != before[customer::DATA..], credit);
        assert_eq!(after.len(), before.len());
        let row = serial.object(keys().history(0, number + 100)).unwrap();
        assert_eq!(rows::history::AMOUNT.get(row), 12_345);
    }
    assert_eq!(findings_of_run(&serial), [""; 0]);
}

#[test]
fn the_customer_in_the_middle_is_taken() {
    let row: Vec<u8> = [5u16, 6, 7, 8].iter().flat_map(|number| number.to_le_bytes()).collect();
    assert_eq!(Customer::middle(&row[..2]), Some(5));
    assert_eq!(Customer::middle(&row[..4]), Some(5));
    assert_eq!(Customer::middle(&row[..6]), Some(6));
    assert_eq!(Customer::middle(&row), Some(6));
    assert_eq!(Customer::middle(&[]), None);
}

#[test]
fn deliveries_take_the_oldest_until_none_is_left() {
    let mut serial = Serial::load(&Tpcc::new(SMALL), 2);
    let one = delivery::Delivered { warehouse: 1, district: 6, carrier: 3, date: 9 };
    for expected in (22..=30).chain([0, 0]) {
        let outcome = serial.call(&one.request(&keys()));
        assert_eq!(outcome, Outcome::Committed { answer: u32::to_le_bytes(expected).to_vec() });
        assert_eq!(findings(&serial), [""; 0]);
    }
}

#[test]
fn an_order_status_tells_the_last_order() {
    let mut serial = Serial::load(&Tpcc::new(SMALL), 2);
    let lines = vec![new_order::Line { item: 3, supply_warehouse: 1, quantity: 4 }; 15];
    serial
        .call(&new_order::Order { warehouse: 1, district: 1, customer: 2, date: 6, lines }.request(&keys()));
    let name = customer::LAST_NAME.get(serial.object(keys().customer(1, 1, 2)).unwrap()) as u16;
    let mut answers = Vec::new();
    for customer in [Customer::Number(2), Customer::LastName(name)] {
        let asked = order_status::Asked { warehouse: 1, district: 1, customer };
        let Outcome::Committed { answer } = serial.call(&asked.request(&keys())) else {
            panic!("not committed")
        };
        answers.push(answer);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].len(), 21 + 15 * 15);
    assert_eq!(answers[0][8..12], 31u32.to_le_bytes());
}

/// The pieces of a stock-level return the same number as a scan of all tables.
#[test]
fn a_stock_level_counts_right() {
    let mut serial = Run::new(&Tpcc::new(SMALL), 2, 2, 4_000, 1).serial;
    let (warehouse, district, threshold) = (2, 5, 60u8);
    let next = district::NEXT_ORDER.get(serial.object(keys().district(warehouse, district)).unwrap()) as u32;
    let recent = |key: Key| {
        let place = keys().place(key).unwrap();
        place.table == Table::OrderLine
            && (place.warehouse, place.district) == (warehouse, district)
            && (next - 20..next).contains(&(place.id >> 4))
    };
    let items: std::collections::BTreeSet<u32> = serial
        .objects()
        .filter(|(key, _)| recent(*key))
        .map(|(_, row)| order_line::ITEM.get(row) as u32)
        .collect();
    let low = |item: &&u32| {
        stock::QUANTITY.get(serial.object(keys().stock(warehouse, **item)).unwrap()) < u64::from(threshold)
    };
    let expected = items.iter().filter(low).count() as u32;
    assert!(expected > 10);

    let mut call = |request: &weft_txn::Request| match serial.call(request) {
        Outcome::Committed { answer } => answer,
        other => panic!("{other:?}"),
    };
    assert_eq!(call(&stock_level::next_order(&keys(), warehouse, district)), next.to_le_bytes());
    let mut found = std::collections::BTreeSet::new();
    for first in (next - 20..next).step_by(3) {
        let answer =
            call(&stock_level::recent_items(&keys(), warehouse, district, first, (next - first).min(3)));
        found.extend(answer.chunks(4).map(|item| u32::from_le_bytes(item.try_into().unwrap())));
    }
    assert_eq!(found, items);
    let found: Vec<u32> = found.into_iter().collect();
    let counts = found.chunks(stock_level::STOCKS_AT_ONCE).map(|items| {
        let answer = call(&stock_level::low_stock(&keys(), warehouse, items, threshold));
        u32::from_le_bytes(answer.try_into().unwrap())
    });
    assert_eq!(counts.sum::<u32>(), expected);
}

#[test]
fn keys_tell_what_they_are_of() {
    let keys = keys();
    let line = keys.order_line(3, 10, 123_456, 15);
    let place = ParsedKey { table: Table::OrderLine, warehouse: 3, district: 10, id: 123_456 << 4 | 15 };
    assert_eq!((keys.place(line), line.shard()), (Some(place), 1));
    assert_eq!(keys.place(Key::new(0, 0)), None);
    assert_eq!(keys.place(Key::new(2, keys.warehouse(0).local())), None);
    assert_eq!(keys.item(3, 5).shard(), 1);
    assert_eq!(keys.item(2, 5), keys.item(3, 5));
}

#[test]
fn a_seed_decides_everything() {
    let workload = Tpcc::new(SMALL);
    assert_eq!(transcript(&workload, 2, 1), transcript(&workload, 2, 1));
    assert_ne!(transcript(&workload, 2, 1), transcript(&workload, 2, 2));
}
