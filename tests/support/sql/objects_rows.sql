-- Rows for objects.sql: every type with values that are easily corrupted.
insert into shop.everything (small, number, exact, real_four, real_eight, words, padded, limited,
    bytes, plain_moment, clock, clock_zone, doc, markup, net, block, mac, spot, area, search, query,
    feeling, price, prices, sure, ints, grid, ages, open_hours, open_days, nick, cash, kind,
    position_in_log, xid, day, moment)
values
    (-32768, 123456789.123, 'NaN', 'Infinity', '-0', E'tab\tnew\nline\\back\r\\.\b', 'ab', 'straße',
     '\x005c0a2e', '0044-03-15 00:00:00.125 BC', '24:00', '12:00+05:30', '{"a":  1}', '<a>&lt;</a>',
     '::1/64', '10.0.0.0/8', '08:00:2b:01:02:03', '(1e-300,-1)', '((0,0),(1,1),(1,0))',
     'a:1 b:2', 'a & !b', 'HAPPY "q"', '(1.5,EUR)', array['(1,"a,b")'::shop.money_amount, null],
     3.10, '{1,null,3}', '{{1,2},{3,4}}', 'empty', '["2020-01-01 00:00+00",)', '{}', 'NiCk', '$1.23',
     null, '16/B374D848', '12345', 'infinity', '-infinity'),
    (null, null, 123456789012345678901234567890.123456789012345678901234567890, 1e-45, 1e308, '',
     '', '\N', '', null, null, null, 'null', null, null, null, null, null, null, '', '', 'sad',
     row(null, null), '{}', 0.0001, '{}', '{}', '[1,5)', null, null, '', '-$5.00', null, '0/0', '0',
     '4713-01-01 BC', '2020-02-29 23:59:59.999999+14'),
    (1, 0, 'Infinity', 'NaN', '-Infinity', repeat('toast ', 20000), 'x', 'y', '\xff', null, null,
     null, '"x"', null, null, null, null, null, null, null, null, 'it''s ok', null, null, 1, null,
     null, null, null, null, null, null, null, null, null, null, null);
insert into shop.everything (words, kind) select 'row ' || g, null from generate_series(1, 300) g;
delete from shop.everything where id % 7 = 0;
insert into shop.plain values
    (1, -1, -9223372036854775808, '-0', 'NaN', 'NaN', 4294967295, 'FFFFFFFF/FFFFFFFF', true,
     E'ü\t\n\\.', 'é', 'x', 'äöü', '\x00ff0a', '00000000-0000-0000-0000-000000000001',
     '{"a":  1}', '{"n": 1.10}', 'infinity', '24:00', '12:00+05:30', '0044-03-15 00:00:00.125 BC',
     '2020-02-29 23:59:59.999+14', '-1 year 2 mons -3 days 04:05:06.789', '::1/64', '10.0.0.0/8',
     '08:00:2b:01:02:03', 'it''s ok', '{"a,b",null,"\"q\""}', '{{1.10,NaN},{null,-0.001}}',
     '{infinity,"2020-01-01 00:00+00"}'),
    (2, 32767, 9223372036854775807, 'Infinity', 5e-324, 12345678901234567890.123456789012345678,
     0, '0/0', false, '', '', '', '', '', null, 'null', 'null', '4713-01-01 BC', '00:00', null,
     '-infinity', 'infinity', '0', '1.2.3.4', null, null, 'HAPPY "q"', '{}', '{}', '{}');
insert into shop.plain values (3);
insert into shop.serials (n) select g from generate_series(1, 5) g;
insert into shop.serials default values;
insert into shop.empty_columns default values;
insert into shop.empty_columns default values;
insert into shop.nothing_but_generated default values;
insert into shop.dropped values (1, 2, 'd'), (2, 3, null);
insert into shop.no_key values (1, 'x'), (1, 'x'), (null, null);
insert into shop.by_index values (1, 1, 'one');
insert into shop.rooms values (1, '[2020-01-01,2020-01-02)'), (2, '[2020-01-01,2020-01-02)');
insert into shop.late values (1, 5);
insert into shop.parent values (1, 'parent');
insert into shop.child values (1, 'child', 'x');
insert into shop.grandchild values (1, 'grandchild', 'y', 'z');
insert into shop.events select g, '2025-06-01'::date + g, 'sad', 'body ' || g
    from generate_series(1, 400) g;
insert into "Odd.Schema ""q"""."Table with.dots and ""quotes""" values (1, 'ü', 'sad', 2);
insert into "Odd.Schema ""q""".refers values (1, 1, 1, 1, '2025-06-02', 1), (2, 2, 1, null, null, 1);
select nextval('shop.loose_number') from generate_series(1, 3);
