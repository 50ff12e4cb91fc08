// Mongoose: schemas, population, discriminators, virtuals, aggregation, transactions, change streams, versions.
import assert from 'node:assert/strict';
import mongoose from 'mongoose';

const { Schema } = mongoose;
const connection = await mongoose.createConnection(process.argv[2], { dbName: 'mongoose_shop' }).asPromise();
await connection.dropDatabase();

const makerSchema = new Schema({ name: { type: String, unique: true, required: true } }, { timestamps: true });
makerSchema.virtual('products', { ref: 'Product', localField: '_id', foreignField: 'maker' });
const Maker = connection.model('Maker', makerSchema);
const productSchema = new Schema({
  name: { type: String, index: true },
  price: { type: Schema.Types.Decimal128, get: Number },
  stock: { type: Number, default: 10, min: 0 },
  maker: { type: Schema.Types.ObjectId, ref: 'Maker' },
  tags: [String],
  reviews: [{ by: String, stars: Number }],
  attributes: { type: Map, of: String },
}, { discriminatorKey: 'kind', optimisticConcurrency: true });
productSchema.index({ name: 'text' });
const Product = connection.model('Product', productSchema);
const Book = Product.discriminator('Book', new Schema({ pages: Number }));
const Order = connection.model('Order', new Schema({ product: { type: Schema.Types.ObjectId, ref: 'Product' }, amount: Number }));
await Promise.all([Maker.init(), Product.init(), Order.createCollection()]);

const acme = await Maker.create({ name: 'acme' });
await assert.rejects(Maker.create({ name: 'acme' }), { code: 11000 });
const [cart] = await Product.create([
  { name: 'cart', price: '19.90', maker: acme, tags: ['a', 'b'], attributes: { colour: 'red' } },
]);
await Book.create({ name: 'A book of carts', price: '9.10', maker: acme, pages: 300, reviews: [{ by: 'ann', stars: 5 }] });
assert.equal((await Product.findOne({ name: 'cart' }).populate('maker')).maker.name, 'acme');
assert.equal((await Maker.findOne().populate('products')).products.length, 2);
assert.equal((await Book.findOne()).pages, 300);
assert.equal(await Product.countDocuments({ 'attributes.colour': 'red' }), 1);
assert.deepEqual((await Product.find({ $text: { $search: 'cart' } }).sort('name')).map((p) => p.name), ['A book of carts', 'cart']);
await Product.updateOne({ 'reviews.by': 'ann' }, { $inc: { 'reviews.$[each].stars': -1 } }, { arrayFilters: [{ 'each.by': 'ann' }] });
assert.equal((await Book.findOne()).reviews[0].stars, 4);
const grouped = await Product.aggregate([
  { $lookup: { from: 'makers', localField: 'maker', foreignField: '_id', as: 'maker' } },
  { $group: { _id: { $first: '$maker.name' }, sum: { $sum: '$price' } } },
]);
assert.equal(String(grouped[0].sum), '29.00');
const written = await Product.bulkWrite([
  { updateOne: { filter: { name: 'cart' }, update: { $addToSet: { tags: 'c' } } } },
  { updateOne: { filter: { name: 'axle' }, update: { $set: { price: '1.00' } }, upsert: true } },
]);
assert.deepEqual([written.modifiedCount, written.upsertedCount], [1, 1]);
const mine = await Product.findById(cart._id);
await Product.findById(cart._id).then((theirs) => theirs.set('stock', 5).save());
await assert.rejects(mine.set('stock', 4).save(), { name: 'VersionError' });
let seen = 0;
for await (const product of Product.find().sort('_id').cursor({ batchSize: 1 })) seen += product.name.length > 0;
assert.equal(seen, 3);

const stream = Order.watch([{ $match: { operationType: 'insert' } }], { fullDocument: 'updateLookup' });
const changes = [];
const two = new Promise((resolve, reject) => {
  stream.on('error', reject);
  stream.on('change', (change) => changes.push(change.fullDocument.amount) === 2 && resolve());
});
await new Promise((resolve) => stream.once('resumeTokenChanged', resolve));
await connection.transaction(async (session) => {
  await Order.create([{ product: cart, amount: 2 }], { session });
  await Product.updateOne({ _id: cart._id }, { $inc: { stock: -2 } }, { session });
});
await assert.rejects(connection.transaction(async (session) => {
  await Order.create([{ product: cart, amount: 99 }], { session });
  throw new Error('not so many');
}), /not so many/);
await Order.create({ product: cart, amount: 1 });
await two;
await stream.close();
assert.deepEqual(changes, [2, 1]);
assert.equal((await Product.findById(cart._id)).stock, 3);

const Reading = connection.model('Reading', new Schema({ at: Date, room: String, value: Number }, {
  timeseries: { timeField: 'at', metaField: 'room', granularity: 'minutes' }, autoCreate: false,
}));
await Reading.createCollection();
await Reading.insertMany([1, 2, 3].map((value) => ({ at: new Date(2024, 1, value), room: 'x', value })));
assert.equal((await Reading.aggregate([{ $group: { _id: '$room', mean: { $avg: '$value' } } }]))[0].mean, 2);
await connection.dropDatabase();
await connection.close();
